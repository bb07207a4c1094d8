package fsm_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/fsm/fsmtest"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// enrollerToken stores a token of role ENROLLER, and returns the origin of its calls.
func enrollerToken(t *testing.T, p *fsmtest.Peer, id string, most uint32) *internalv1.Origin {
	t.Helper()
	tok := storedToken(id, id)
	tok.Token.Role, tok.Token.Pools, tok.Token.MachineId = holdfastv1.Role_ENROLLER, []string{"gpu"}, ""
	tok.Token.Name, tok.Token.MaxMachines = id, most
	do(t, p, &internalv1.CreateToken{Token: tok})
	o := enroller("gpu")
	o.TokenId = id
	return o
}

// TestEnrollmentIsLimited enrolls as many machines as callers want, and checks how many there are.
func TestEnrollmentIsLimited(t *testing.T) {
	for _, tt := range []struct {
		name        string
		tokens      int    // that share the machines
		max         uint32 // of each token
		limit       uint32 // of the pool
		machines    int
		want        int
		unapproved  bool // they count in the pool
		byPoolToken bool
	}{
		{name: "a token by default", tokens: 1, machines: 1500, want: 1000, unapproved: true},
		{name: "a token with a limit", tokens: 1, max: 3, machines: 10, want: 3, unapproved: true},
		{name: "several tokens", tokens: 3, max: 3, machines: 30, want: 9, unapproved: true},
		{name: "a pool", tokens: 3, max: 100, limit: 5, machines: 30, want: 5, unapproved: true},
		{name: "a pool, with its own token", byPoolToken: true, limit: 5, machines: 30, want: 5, unapproved: true},
		{name: "a pool without a limit", byPoolToken: true, machines: 30, want: 30, unapproved: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := gpuPool(t)
			origins := []*internalv1.Origin{}
			for i := range tt.tokens {
				origins = append(origins, enrollerToken(t, p, fmt.Sprint("enroller-", i), tt.max))
			}
			if tt.byPoolToken {
				origins = append(origins, poolAgent("gpu"))
			}
			reasons := map[string]int{}
			for i := range tt.machines {
				op := enrollOp(fmt.Sprint("x-", i), fmt.Sprint("own-", i), fmt.Sprint("value-", i))
				op.EnrollLimit = tt.limit
				if r := by(p, origins[i%len(origins)], fsmtest.Command(op)); r.Err != nil {
					reasons[r.Err.Reason]++
				}
			}
			want := map[string]int{}
			if left := tt.machines - tt.want; left > 0 {
				want[fsm.ReasonEnrollmentFull] = left
			}
			if diff := cmp.Diff(want, reasons); diff != "" {
				t.Errorf("refusals (-want +got):\n%s", diff)
			}
			got := 0
			for m := range p.View().Machines("") {
				if m.GetMachineId() == "m-1" {
					continue // an operator's, of gpuPool
				}
				got++
				if m.GetAgent().GetUnapproved() != tt.unapproved {
					t.Errorf("%s: unapproved %t", m.GetMachineId(), m.GetAgent().GetUnapproved())
				}
			}
			if got != tt.want {
				t.Errorf("got %d machines, want %d", got, tt.want)
			}
			counted := uint32(0)
			for i := range tt.tokens {
				tok, _ := p.View().Token(fmt.Sprint("enroller-", i))
				counted += tok.GetEnrolledMachines()
			}
			if tt.tokens > 0 && int(counted) != tt.want {
				t.Errorf("the tokens count %d machines, want %d", counted, tt.want)
			}
		})
	}
}

// TestEnrollmentCountsMachines checks that a machine counts once, and that an operator's change
// makes room in the pool.
func TestEnrollmentCountsMachines(t *testing.T) {
	p := gpuPool(t)
	o := enrollerToken(t, p, "e", 2)
	enroll := func(machine, token string, limit uint32) string {
		op := enrollOp(machine, token, token)
		op.EnrollLimit = limit
		if r := by(p, o, fsmtest.Command(op)); r.Err != nil {
			return r.Err.Reason
		}
		return ""
	}
	for _, step := range []struct{ name, got, want string }{
		{"the first", enroll("x-1", "t-1", 1), ""},
		{"another one in a full pool", enroll("x-2", "t-2", 1), fsm.ReasonEnrollmentFull},
	} {
		if step.got != step.want {
			t.Errorf("%s: got %q, want %q", step.name, step.got, step.want)
		}
	}
	do(t, p, &internalv1.RevokeToken{TokenId: "t-1"})
	if got := enroll("x-1", "t-3", 1); got != "" {
		t.Errorf("the first once more: got %q", got)
	}
	do(t, p, &internalv1.UpdateMachine{Paths: []string{"labels"},
		Machine: &holdfastv1.Machine{MachineId: "x-1", Labels: map[string]string{"ok": "1"}}})
	if getMachine(t, p, "x-1").GetAgent().GetUnapproved() {
		t.Error("x-1 is not approved by an operator's change")
	}
	for _, step := range []struct{ name, got, want string }{
		{"after the approval", enroll("x-2", "t-2", 1), ""},
		{"more than the token may", enroll("x-3", "t-4", 0), fsm.ReasonEnrollmentFull},
	} {
		if step.got != step.want {
			t.Errorf("%s: got %q, want %q", step.name, step.got, step.want)
		}
	}
	if tok, _ := p.View().Token("e"); tok.GetEnrolledMachines() != 2 {
		t.Errorf("got %d enrolled machines, want 2", tok.GetEnrolledMachines())
	}
}

// TestMaxMachines checks which limits a token may have.
func TestMaxMachines(t *testing.T) {
	for _, tt := range []struct {
		role holdfastv1.Role_Value
		most uint32
		bad  bool
	}{
		{holdfastv1.Role_ENROLLER, 0, false},
		{holdfastv1.Role_ENROLLER, 100_000, false},
		{holdfastv1.Role_ENROLLER, 100_001, true},
		{holdfastv1.Role_POOL_AGENT, 1, true},
	} {
		tok := &holdfastv1.Token{Name: "x", Role: tt.role, Pools: []string{"gpu"}, MaxMachines: tt.most}
		if bad := len(fsm.ValidateToken(tok)) > 0; bad != tt.bad {
			t.Errorf("%v with %d: got refused %t, want %t", tt.role, tt.most, bad, tt.bad)
		}
	}
}

// TestBegunRemoval checks that a removal in two parts denies the peer at once, and ends with its
// record.
func TestBegunRemoval(t *testing.T) {
	p := fsmtest.NewPeer()
	do(t, p, &internalv1.PutPeer{Peer: &internalv1.PeerRecord{Id: "p1", Instance: "i", MaxFeatureLevel: fsm.FeatureLevel}})
	for _, step := range []struct {
		name             string
		op               *internalv1.RemovePeer
		record, removing bool
	}{
		{"begun", &internalv1.RemovePeer{Id: "p1", Begin: true, Denial: &internalv1.PeerAdmission{Id: "p1"}}, true, true},
		{"ended", &internalv1.RemovePeer{Id: "p1"}, false, false},
		{"ended again", &internalv1.RemovePeer{Id: "p1"}, false, false},
	} {
		do(t, p, step.op)
		_, record := p.View().Peer("p1")
		a, ok := p.View().Admission("p1")
		if record != step.record || a.GetRemoving() != step.removing || !ok || !a.GetDenied() {
			t.Errorf("%s: got record %t, admission %v", step.name, record, a)
		}
	}
}
