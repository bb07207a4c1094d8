package fleet

import (
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/fsm/internal/access"
	"github.com/holdfast-metal/holdfast/fsm/internal/core"
	"github.com/holdfast-metal/holdfast/fsm/internal/events"
	"github.com/holdfast-metal/holdfast/fsm/internal/lex"
	"github.com/holdfast-metal/holdfast/fsm/internal/lifecycle"
	"github.com/holdfast-metal/holdfast/fsm/internal/refusal"
	"github.com/holdfast-metal/holdfast/fsm/internal/schema"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// ReasonMachineEnrolled is the reason for refusing a pool's token for a machine that has its
// own.
const ReasonMachineEnrolled = "MACHINE_ENROLLED"

// ReasonEnrollmentFull is the reason for refusing another machine of a token or of a pool.
const ReasonEnrollmentFull = "ENROLLMENT_FULL"

// enrollment returns the token with which a registration enrolls its machine, or nil if it
// does not. Every machine of a pool has the pool's token, so a caller with that one must not
// replace a machine's own token.
func enrollment(
	t *core.Tx, m *holdfastv1.Machine, id string, tok *internalv1.StoredToken,
) (*internalv1.StoredToken, *refusal.Error) {
	if tok == nil || t.Command.GetOrigin().GetRole() == holdfastv1.Role_AGENT {
		if t.Command.GetOrigin().GetRole() == holdfastv1.Role_ENROLLER {
			return nil, refusal.New(refusal.PermissionDenied, refusal.ReasonPrivilege,
				"a token of role ENROLLER can register a machine only with a token of its own: send token_sha256").
				With("machine_id", id)
		}
		return nil, RefusePoolToken(t, m)
	}
	if same, ok := access.TokenByHash(t.State, tok.GetSha256()); ok && same.GetTokenId() == m.GetAgent().GetTokenId() &&
		access.TokenGood(same, t.Now.AsTime()) == nil {
		return nil, nil // a retry after a lost response
	}
	if has := goodAgentToken(t, id); has != "" {
		if m.GetAgent().GetTokenId() == "" && t.Command.GetOrigin().GetRole() == holdfastv1.Role_POOL_AGENT {
			return nil, nil // an operator made that token; the agent uses its pool's
		}
		return nil, refusal.New(refusal.PermissionDenied, ReasonMachineEnrolled,
			"machine %q has a token of its own, %s: use it, or revoke it to enroll the machine again", id, has).
			With("machine_id", id).With("token_id", has)
	}
	tok.Token = &holdfastv1.Token{
		TokenId:   tok.GetToken().GetTokenId(),
		Name:      "agent-" + id,
		Role:      holdfastv1.Role_AGENT,
		MachineId: id,
	}
	if err := access.CheckToken(t, tok); err != nil {
		return nil, err
	}
	return tok, checkEnroller(t, m)
}

// enroller returns the token of role ENROLLER that the caller has, unless it is the one that the
// machine has enrolled with before: a machine counts once.
func enroller(t *core.Tx, m *holdfastv1.Machine) (*internalv1.StoredToken, bool) {
	s, ok := t.Tokens.Get(t.Command.GetOrigin().GetTokenId())
	return s, ok && s.GetToken().GetRole() == holdfastv1.Role_ENROLLER &&
		s.GetToken().GetTokenId() != m.GetAgent().GetEnrollerId()
}

// checkEnroller refuses another machine if the caller's token has enrolled as many as it may.
func checkEnroller(t *core.Tx, m *holdfastv1.Machine) *refusal.Error {
	s, ok := enroller(t, m)
	if tok := s.GetToken(); ok && tok.GetEnrolledMachines() >= tok.GetMaxMachines() {
		return refusal.New(refusal.FailedPrecondition, ReasonEnrollmentFull,
			"token %q has enrolled %s, as many as it may: revoke it if you do not know them all, "+
				"and make another one (holdfast token create --role enroller --max-machines N)",
			tok.GetTokenId(), lex.Number(int(tok.GetEnrolledMachines()), "machine")).With("token_id", tok.GetTokenId())
	}
	return nil
}

// checkUnapproved refuses another machine that only its agent knows, if its pool has limit of them.
// A limit of 0 means no limit.
func checkUnapproved(t *core.Tx, pool string, limit uint32) *refusal.Error {
	if limit == 0 || !byAgent(t) {
		return nil
	}
	if n := t.Machines.CountPrefix(schema.MachinesUnapproved, schema.PoolKey(pool)); uint64(n) >= uint64(limit) {
		return refusal.New(refusal.FailedPrecondition, ReasonEnrollmentFull,
			"pool %q has %s that agents have created and no operator has approved, at most %d are allowed: "+
				"approve them (holdfast machine update ID --label approved=true), delete them, or raise --enroll-limit",
			pool, lex.Number(n, "machine"), limit).With("pool", pool)
	}
	return nil
}

// byAgent reports whether the caller has a token that agents of a pool share.
func byAgent(t *core.Tx) bool {
	role := t.Command.GetOrigin().GetRole()
	return role == holdfastv1.Role_ENROLLER || role == holdfastv1.Role_POOL_AGENT
}

// enroll stores the token of a machine's agent, and counts the machine.
func enroll(t *core.Tx, m *holdfastv1.Machine, tok *internalv1.StoredToken) {
	if s, ok := enroller(t, m); ok {
		s = proto.CloneOf(s)
		s.Token.EnrolledMachines++
		t.Tokens.Put(s)
		m.Agent.EnrollerId = s.GetToken().GetTokenId()
	}
	m.Agent.TokenId = access.StoreToken(t, tok).GetTokenId()
	events.AddHistory(t, m, &holdfastv1.HistoryEntry{Facet: "inventory", To: "agent.token_id", TriggeredBy: "agent",
		Comment: "enrolled with a token of its own, " + m.GetAgent().GetTokenId()})
}

// RefusePoolToken returns a refusal if the caller has a pool's token and the machine is enrolled.
func RefusePoolToken(t *core.Tx, m *holdfastv1.Machine) *refusal.Error {
	role, own := t.Command.GetOrigin().GetRole(), m.GetAgent().GetTokenId()
	if own == "" || role != holdfastv1.Role_POOL_AGENT && role != holdfastv1.Role_ENROLLER {
		return nil
	}
	return MachineEnrolled(m.GetMachineId())
}

// MachineEnrolled returns the error for a call for an enrolled machine with its pool's token.
func MachineEnrolled(id string) *refusal.Error {
	return refusal.New(refusal.PermissionDenied, ReasonMachineEnrolled,
		"machine %q has a token of its own: the token of its pool is not valid for it", id).With("machine_id", id)
}

// goodAgentToken returns the id of a valid token of a machine's agent, or "".
func goodAgentToken(t *core.Tx, machineID string) string {
	for _, s := range t.Tokens.Scan(schema.TokensByMachine, machineID+"/", "") {
		if access.TokenGood(s.GetToken(), t.Now.AsTime()) == nil {
			return s.GetToken().GetTokenId()
		}
	}
	return ""
}

// ForgetEnrollment revokes the token that a machine enrolled with before a time, because the
// disk that held it has been overwritten. It reports whether it changed the machine. Tokens
// made by operators stay: the new system may have one.
func ForgetEnrollment(t *core.Tx, m *holdfastv1.Machine, before *timestamppb.Timestamp) (changed bool) {
	s, ok := t.Tokens.Get(m.GetAgent().GetTokenId())
	switch {
	case m.GetAgent().GetTokenId() == "", ok && !s.GetToken().GetCreatedAt().AsTime().Before(before.AsTime()):
		return false
	case ok && s.GetToken().GetRevokedAt() == nil:
		access.Revoke(t, s)
	}
	m.Agent.TokenId = ""
	return true
}

// InstallBegan returns the start of the last attempt to write the disk of a run's machine.
func InstallBegan(run *holdfastv1.Run) *timestamppb.Timestamp {
	at := run.GetCreatedAt()
	for _, s := range run.GetSteps() {
		if a := lifecycle.LastAttempt(s); s.GetKind() == "repave" && a != nil {
			at = a.GetStartedAt()
		}
	}
	return at
}

// Enrolled reports whether a machine's agent has its own token. It does not decode the
// machine.
func (v *View) Enrolled(id string) bool {
	return v.s.Machines.Indexed(schema.MachinesEnrolled, id, id)
}
