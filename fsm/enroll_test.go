package fsm_test

import (
	"crypto/sha256"
	"testing"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/fsm/fsmtest"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

func enroller(pool string) *internalv1.Origin {
	return &internalv1.Origin{Role: holdfastv1.Role_ENROLLER, Pools: []string{pool}}
}

func poolAgent(pool string) *internalv1.Origin {
	return &internalv1.Origin{Role: holdfastv1.Role_POOL_AGENT, Pools: []string{pool}}
}

// enrollOp registers a machine with a token of its own.
func enrollOp(id, token, value string) *internalv1.RegisterAgent {
	op := agentOp(id, "gpu")
	op.Token = storedToken(token, value)
	return op
}

// by applies an operation for a caller.
func by(p *fsmtest.Peer, o *internalv1.Origin, c *internalv1.Command) fsm.Result {
	c.Origin = o
	return p.Propose(c)[0]
}

// TestEnroll checks which tokens are valid for a machine: that of the first agent that
// enrolls it, and no shared token.
func TestEnroll(t *testing.T) {
	p := gpuPool(t)
	do(t, p, awaitOp("m-made"))
	report := func(id string) *internalv1.ReportNode {
		m := getMachine(t, p, id)
		return &internalv1.ReportNode{Report: &holdfastv1.ReportNodeRequest{MacAddress: m.GetSpec().GetMacAddresses()[0]}}
	}
	do(t, p, &internalv1.UpdateMachine{Machine: &holdfastv1.Machine{MachineId: "m-1",
		Spec: &holdfastv1.MachineSpec{MacAddresses: []string{"02:00:00:00:00:01"}}},
		Paths: []string{"spec.mac_addresses"}})
	for _, step := range []struct {
		name  string
		by    *internalv1.Origin
		op    *internalv1.Command
		want  string // reason of the refusal
		token string // token of m-1 afterwards
	}{
		{"an enroller enrolls", enroller("gpu"), fsmtest.Command(agentOp("m-1", "gpu")), fsm.ReasonPrivilege, ""},
		{"another pool's enroller", enroller("cpu"), fsmtest.Command(enrollOp("m-1", "t-1", "one")), fsm.ReasonOutOfScope,
			""},
		{"the pool's token, before", poolAgent("gpu"), fsmtest.Command(agentOp("m-1", "gpu")), "", ""},
		{"its report, before", poolAgent("gpu"), fsmtest.Command(report("m-1")), "", ""},
		{"enrolled", enroller("gpu"), fsmtest.Command(enrollOp("m-1", "t-1", "one")), "", "t-1"},
		{"once more, as the answer was lost", enroller("gpu"), fsmtest.Command(enrollOp("m-1", "t-2", "one")), "", "t-1"},
		{"by another machine", enroller("gpu"), fsmtest.Command(enrollOp("m-1", "t-3", "two")), fsm.ReasonMachineEnrolled,
			"t-1"},
		{"by another machine with the pool's token", poolAgent("gpu"), fsmtest.Command(enrollOp("m-1", "t-3", "two")),
			fsm.ReasonMachineEnrolled, "t-1"},
		{"the pool's token", poolAgent("gpu"), fsmtest.Command(agentOp("m-1", "gpu")), fsm.ReasonMachineEnrolled, "t-1"},
		{"its report", poolAgent("gpu"), fsmtest.Command(report("m-1")), fsm.ReasonMachineEnrolled, "t-1"},
		{"its own token", agent("m-1"), fsmtest.Command(agentOp("m-1", "gpu")), "", "t-1"},
		{"its own token does not make others", agent("m-1"), fsmtest.Command(enrollOp("m-1", "t-4", "four")), "", "t-1"},
		{"revoked", nil, fsmtest.Command(&internalv1.RevokeToken{TokenId: "t-1"}), "", "t-1"},
		{"the pool's token after that", poolAgent("gpu"), fsmtest.Command(agentOp("m-1", "gpu")), fsm.ReasonMachineEnrolled,
			"t-1"},
		{"the revoked one", enroller("gpu"), fsmtest.Command(enrollOp("m-1", "t-5", "one")), "TOKEN_TAKEN", "t-1"},
		{"enrolled again", enroller("gpu"), fsmtest.Command(enrollOp("m-1", "t-5", "five")), "", "t-5"},
		{"a machine whose token an operator made", enroller("gpu"), fsmtest.Command(enrollOp("m-made", "t-6", "six")),
			fsm.ReasonMachineEnrolled, "t-5"},
		{"that one with the pool's token, as before", poolAgent("gpu"), fsmtest.Command(enrollOp("m-made", "t-6", "six")),
			"", "t-5"},
	} {
		got := ""
		if r := by(p, step.by, step.op); r.Err != nil {
			got = r.Err.Reason
		}
		if got != step.want {
			t.Errorf("%s: refused for %q, want %q", step.name, got, step.want)
		}
		if own := getMachine(t, p, "m-1").GetAgent().GetTokenId(); own != step.token {
			t.Errorf("%s: the token is %q, want %q", step.name, own, step.token)
		}
		if enrolled := p.View().Enrolled("m-1"); enrolled != (step.token != "") {
			t.Errorf("%s: Enrolled = %t", step.name, enrolled)
		}
	}
	sum := sha256.Sum256([]byte("five"))
	if tok, ok := p.View().TokenByHash(sum[:]); !ok || tok.GetRole() != holdfastv1.Role_AGENT ||
		tok.GetMachineId() != "m-1" || tok.GetTokenId() != "t-5" {
		t.Errorf("the token is %v, want one of m-1's agent", tok)
	}
	if own := getMachine(t, p, "m-made").GetAgent().GetTokenId(); own != "" {
		t.Errorf("m-made is enrolled with %q", own)
	}
}

// TestEnrollmentEndsWithTheDisk checks that an install overwrites the token, so that the new
// system enrolls.
func TestEnrollmentEndsWithTheDisk(t *testing.T) {
	p := gpuPool(t)
	do(t, p, enrollOp("m-1", "t-old", "old"))
	do(t, p, &internalv1.UpdateMachine{Machine: &holdfastv1.Machine{MachineId: "m-1",
		Spec: &holdfastv1.MachineSpec{MacAddresses: []string{"02:00:00:00:00:01"}}},
		Paths: []string{"spec.mac_addresses"}})
	report := func(status string) {
		t.Helper()
		do(t, p, &internalv1.ReportNode{RunId: "r-1", Report: &holdfastv1.ReportNodeRequest{MacAddress: "02:00:00:00:00:01",
			InstallationStatus: status}})
	}
	report("started")
	if r := by(p, enroller("gpu"), fsmtest.Command(enrollOp("m-1", "t-new", "new"))); r.Err == nil {
		t.Error("another agent has enrolled the machine while it is installed")
	}
	report("complete")
	if tok, _ := p.View().Token("t-old"); tok.GetRevokedAt() == nil {
		t.Errorf("the token of the system before is %v, want revoked", tok)
	}
	if r := by(p, enroller("gpu"), fsmtest.Command(enrollOp("m-1", "t-new", "new"))); r.Err != nil {
		t.Errorf("the new system cannot enroll: %v", r.Err)
	}
	if own := getMachine(t, p, "m-1").GetAgent().GetTokenId(); own != "t-new" {
		t.Errorf("the token is %q, want t-new", own)
	}
}
