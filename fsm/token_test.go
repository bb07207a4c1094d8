package fsm_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/fsm/fsmtest"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// createToken creates a valid token of a role.
func createToken(id string, role holdfastv1.Role_Value) *internalv1.CreateToken {
	tok := &holdfastv1.Token{TokenId: id, Name: "ci", Role: role}
	switch role {
	case holdfastv1.Role_AGENT:
		tok.MachineId = "m-1"
	case holdfastv1.Role_POOL_AGENT:
		tok.Pools = []string{"a"}
	}
	return &internalv1.CreateToken{Token: &internalv1.StoredToken{Token: tok, Sha256: fsmtest.TokenValue(id)}}
}

func TestCreateToken(t *testing.T) {
	const bad, field = fsm.InvalidArgument, "INVALID_FIELD"
	with := func(role holdfastv1.Role_Value, change func(*holdfastv1.Token)) *internalv1.CreateToken {
		c := createToken("t-1", role)
		change(c.Token.Token)
		return c
	}
	pools := func(p ...string) func(*holdfastv1.Token) { return func(t *holdfastv1.Token) { t.Pools = p } }
	machine := func(id string) func(*holdfastv1.Token) { return func(t *holdfastv1.Token) { t.MachineId = id } }
	now := fsmtest.NewPeer().Now
	for _, tt := range []struct {
		name   string
		op     *internalv1.CreateToken
		code   fsm.Code
		reason string
	}{
		{"admin", createToken("t-1", holdfastv1.Role_ADMIN), 0, ""},
		{"viewer", createToken("t-1", holdfastv1.Role_VIEWER), 0, ""},
		{"viewer of pools", with(holdfastv1.Role_VIEWER, pools("a", "b")), 0, ""},
		{"operator", createToken("t-1", holdfastv1.Role_OPERATOR), 0, ""},
		{"service", createToken("t-1", holdfastv1.Role_SERVICE), 0, ""},
		{"agent", createToken("t-1", holdfastv1.Role_AGENT), 0, ""},
		{"pool agent", createToken("t-1", holdfastv1.Role_POOL_AGENT), 0, ""},
		{"expires later", with(holdfastv1.Role_ADMIN,
			func(t *holdfastv1.Token) { t.ExpiresAt = timestamppb.New(now.Add(time.Hour)) }), 0, ""},
		{"expired before it was made",
			with(holdfastv1.Role_ADMIN, func(t *holdfastv1.Token) { t.ExpiresAt = timestamppb.New(now) }), bad, field},
		{"no role", createToken("t-1", holdfastv1.Role_ROLE_UNSPECIFIED), bad, field},
		{"agent of no machine", with(holdfastv1.Role_AGENT, machine("")), bad, field},
		{"agent of a bad machine", with(holdfastv1.Role_AGENT, machine("a/b")), bad, field},
		{"agent of pools", with(holdfastv1.Role_AGENT, pools("a")), bad, field},
		{"pool agent of no pool", with(holdfastv1.Role_POOL_AGENT, pools()), bad, field},
		{"pool agent of two pools", with(holdfastv1.Role_POOL_AGENT, pools("a", "b")), bad, field},
		{"admin of a machine", with(holdfastv1.Role_ADMIN, machine("m-1")), bad, field},
		{"viewer of a machine", with(holdfastv1.Role_VIEWER, machine("m-1")), bad, field},
		{"service of a machine", with(holdfastv1.Role_SERVICE, machine("m-1")), bad, field},
		{"admin of pools", with(holdfastv1.Role_ADMIN, pools("a")), bad, field},
		{"service of pools", with(holdfastv1.Role_SERVICE, pools("a")), bad, field},
		{"an empty pool", with(holdfastv1.Role_VIEWER, pools("a", "")), bad, field},
		{"a pool with a comma", with(holdfastv1.Role_VIEWER, pools("a,b")), bad, field},
		{"too many pools", with(holdfastv1.Role_VIEWER, pools(slices.Repeat([]string{"a"}, 65)...)), bad, field},
		{"no name", with(holdfastv1.Role_ADMIN, func(t *holdfastv1.Token) { t.Name = "" }), bad, field},
		{"a long name", with(holdfastv1.Role_ADMIN, func(t *holdfastv1.Token) { t.Name = strings.Repeat("n", 65) }), bad,
			field},
		{"a long comment", with(holdfastv1.Role_ADMIN, func(t *holdfastv1.Token) { t.Comment = strings.Repeat("n", 1025) }),
			bad, field},
		{"no id", with(holdfastv1.Role_ADMIN, func(t *holdfastv1.Token) { t.TokenId = "" }), bad, field},
		{"no hash", &internalv1.CreateToken{Token: &internalv1.StoredToken{Token: createToken("t-1",
			holdfastv1.Role_ADMIN).Token.Token}}, bad, field},
		{"nothing at all", &internalv1.CreateToken{}, bad, field},
		{"an id that is in use", createToken("t-0", holdfastv1.Role_ADMIN), fsm.Aborted, fsm.ReasonIDTaken},
		{"a value that is in use",
			&internalv1.CreateToken{Token: &internalv1.StoredToken{Token: createToken("t-1", holdfastv1.Role_ADMIN).Token.Token,
				Sha256: fsmtest.TokenValue("t-0")}}, fsm.AlreadyExists, "TOKEN_TAKEN"},
		{"a second bootstrap token", with(holdfastv1.Role_ADMIN, func(t *holdfastv1.Token) { t.Bootstrap = true }),
			fsm.FailedPrecondition, fsm.ReasonBootstrapped},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := fsmtest.NewPeer()
			first := createToken("t-0", holdfastv1.Role_ADMIN)
			first.Token.Token.Bootstrap = true
			do(t, p, first)
			if tt.code != 0 {
				refused(t, p, tt.op, tt.code, tt.reason)
				return
			}
			got := do(t, p, tt.op).(*holdfastv1.Token)
			want := proto.CloneOf(tt.op.GetToken().GetToken())
			want.CreatedAt, want.CreatedBy = timestamppb.New(p.Now), "tester"
			same(t, "token", want, got)
			kept, ok := p.View().TokenByHash(fsmtest.TokenValue("t-1"))
			if !ok {
				t.Fatal("the token is not found by its hash")
			}
			same(t, "kept", got, kept)
		})
	}
}

func TestBootstrapTokenIsAnAdminsAndOnce(t *testing.T) {
	p := fsmtest.NewPeer()
	op := createToken("t-1", holdfastv1.Role_OPERATOR)
	op.Token.Token.Bootstrap = true
	refused(t, p, op, fsm.InvalidArgument, "INVALID_FIELD")
	op = createToken("t-1", holdfastv1.Role_ADMIN)
	op.Token.Token.Bootstrap = true
	wantAnswer(t, "an admin asks for it", from(p, admin(), op), fsm.PermissionDenied, fsm.ReasonPrivilege)
	do(t, p, op)
	do(t, p, &internalv1.RevokeToken{TokenId: "t-1"})
	do(t, p, &internalv1.DropTokens{TokenIds: []string{"t-1"}})
	op.Token.Token.TokenId, op.Token.Sha256 = "t-2", fsmtest.TokenValue("t-2")
	refused(t, p, op, fsm.FailedPrecondition, fsm.ReasonBootstrapped)
}

func TestPrivilege(t *testing.T) {
	const no = fsm.PermissionDenied
	const adm, op, view, agt, pagt, svc = holdfastv1.Role_ADMIN, holdfastv1.Role_OPERATOR, holdfastv1.Role_VIEWER,
		holdfastv1.Role_AGENT, holdfastv1.Role_POOL_AGENT, holdfastv1.Role_SERVICE
	for _, tt := range []struct {
		caller, role holdfastv1.Role_Value
		code         fsm.Code
	}{
		{adm, adm, 0}, {adm, svc, 0}, {adm, agt, 0},
		{op, agt, 0}, {op, pagt, 0}, {op, op, no}, {op, view, no}, {op, adm, no}, {op, svc, no},
		{view, agt, no}, {view, view, no}, {agt, agt, no}, {pagt, agt, no}, {svc, svc,
			no}, {holdfastv1.Role_ROLE_UNSPECIFIED, view, no},
	} {
		p := fsmtest.NewPeer()
		reason := ""
		if tt.code != 0 {
			reason = fsm.ReasonPrivilege
		}
		wantAnswer(t, fmt.Sprintf("%s makes %s", tt.caller, tt.role),
			from(p, &internalv1.Origin{Role: tt.caller}, createToken("t-1", tt.role)), tt.code, reason)
	}
	// An edge that mistakes an operator's token for an admin's.
	p := fsmtest.NewPeer()
	do(t, p, createToken("t-op", op))
	wantAnswer(t, "a token with another role", from(p, &internalv1.Origin{Role: adm, TokenId: "t-op"},
		createToken("t-1", adm)), no, fsm.ReasonPrivilege)
}

func TestRevokeAndDrop(t *testing.T) {
	p := fsmtest.NewPeer()
	refused(t, p, &internalv1.RevokeToken{TokenId: "t-1"}, fsm.NotFound, "TOKEN_NOT_FOUND")
	do(t, p, createToken("t-1", holdfastv1.Role_ADMIN))
	c := createToken("t-2", holdfastv1.Role_ADMIN)
	c.Token.Token.ExpiresAt = timestamppb.New(p.Now.Add(time.Hour))
	do(t, p, c)
	do(t, p, &internalv1.DropTokens{TokenIds: []string{"t-1", "t-2", "t-3"}})
	if got := len(slices.Collect(p.View().Tokens(""))); got != 2 {
		t.Fatalf("%d tokens after good ones were to be dropped, want 2", got)
	}
	first := do(t, p, &internalv1.RevokeToken{TokenId: "t-1"}).(*holdfastv1.Token)
	same(t, "revoked_at", timestamppb.New(p.Now), first.GetRevokedAt())
	same(t, "revoked again", first, do(t, p, &internalv1.RevokeToken{TokenId: "t-1"}))
	if err := fsm.TokenGood(first, time.Unix(0, 0)); err == nil || err.Reason != fsm.ReasonTokenRevoked {
		t.Errorf("a revoked token: got %v", err)
	}
	p.Now = p.Now.Add(2 * time.Hour)
	do(t, p, &internalv1.DropTokens{TokenIds: []string{"t-1", "t-2"}})
	if _, ok := p.View().TokenByHash(fsmtest.TokenValue("t-1")); ok || len(slices.Collect(p.View().Tokens(""))) != 0 {
		t.Errorf("tokens %v are left, want none", slices.Collect(p.View().Tokens("")))
	}
	wantAnswer(t, "drop of an old leader", func() fsm.Result {
		c := fsmtest.Command(&internalv1.DropTokens{})
		c.Epoch = 99
		return p.Propose(c)[0]
	}(), fsm.Aborted, fsm.ReasonStaleEpoch)
}

// TestTokensMark checks that the mark changes with each change of a token, and with nothing
// else.
func TestTokensMark(t *testing.T) {
	p := fsmtest.NewPeer()
	do(t, p, createToken("t-1", holdfastv1.Role_ADMIN))
	before := p.View()
	register(t, p, "m-1", ready)
	if now := p.View(); now == before || now.TokensMark() != before.TokensMark() {
		t.Errorf("after another change: a new view %v, the same mark %v; want true and true", now != before,
			now.TokensMark() == before.TokensMark())
	}
	seen := map[any]bool{before.TokensMark(): true}
	for i, op := range []proto.Message{
		createToken("t-2", holdfastv1.Role_ADMIN), &internalv1.RevokeToken{TokenId: "t-2"},
		&internalv1.DropTokens{TokenIds: []string{"t-2"}},
	} {
		do(t, p, op)
		if m := p.View().TokensMark(); seen[m] {
			t.Errorf("change %d: the mark is one that was there before", i)
		} else {
			seen[m] = true
		}
	}
}

// TestTokenByHashComparesAll stores two tokens whose hashes have a common prefix.
func TestTokenByHashComparesAll(t *testing.T) {
	p := fsmtest.NewPeer()
	for _, id := range []string{"t-1", "t-2"} {
		c := createToken(id, holdfastv1.Role_ADMIN)
		copy(c.Token.Sha256, "the same")
		do(t, p, c)
		if tok, ok := p.View().TokenByHash(c.Token.Sha256); !ok || tok.GetTokenId() != id {
			t.Errorf("hash of %s: got %v, %v", id, tok, ok)
		}
	}
	other := fsmtest.TokenValue("t-3")
	copy(other, "the same")
	for _, sum := range [][]byte{other, other[:8], nil, []byte("the same")} {
		if tok, ok := p.View().TokenByHash(sum); ok {
			t.Errorf("hash %x is taken for %v", sum, tok)
		}
	}
}

func TestADeletedMachinesAgentIsOut(t *testing.T) {
	p := fsmtest.NewPeer()
	register(t, p, "m-1", ready)
	register(t, p, "m-10", ready)
	do(t, p, createToken("t-1", holdfastv1.Role_AGENT))
	c := createToken("t-2", holdfastv1.Role_AGENT)
	c.Token.Token.MachineId = "m-10"
	do(t, p, c)
	do(t, p, &internalv1.DeleteMachine{MachineId: "m-1"})
	register(t, p, "m-1", ready)
	wantAnswer(t, "the old agent",
		from(p, &internalv1.Origin{TokenId: "t-1", Role: holdfastv1.Role_AGENT, MachineId: "m-1"},
			&internalv1.SetMachinePhase{MachineId: "m-1", Phase: maintenance}), fsm.Unauthenticated, fsm.ReasonTokenRevoked)
	wantAnswer(t, "another one",
		from(p, &internalv1.Origin{TokenId: "t-2", Role: holdfastv1.Role_AGENT, MachineId: "m-10"},
			&internalv1.SetMachinePhase{MachineId: "m-10", Phase: maintenance}), 0, "")
}

// TestARevokedTokenChangesNothing draws logs in which a token is revoked. Later commands with
// it change nothing but the audit trail, also on a restored peer.
func TestARevokedTokenChangesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, g := furnished(), &fsmtest.Generator{Chooser: drawn{t}}
		p.Do(createToken("token-x", holdfastv1.Role_ADMIN))
		worked := false
		for range rapid.IntRange(1, 10).Draw(t, "before") {
			c := g.Next(p.View())
			c.Origin = &internalv1.Origin{TokenId: "token-x", Role: holdfastv1.Role_ADMIN}
			worked = p.Propose(c)[0].Err == nil || worked
		}
		p.Do(&internalv1.RevokeToken{TokenId: "token-x"})
		if rapid.Bool().Draw(t, "restored") {
			p = through(t, p)
		}
		for range rapid.IntRange(1, 10).Draw(t, "after") {
			c := g.Next(p.View())
			c.Origin = &internalv1.Origin{TokenId: "token-x", Role: holdfastv1.Role_ADMIN}
			before, err := fsmtest.DumpOf(p.FSM)
			if err != nil {
				t.Fatal(err)
			}
			r := p.Propose(c)[0]
			after, err := fsmtest.DumpOf(p.FSM)
			if err != nil {
				t.Fatal(err)
			}
			if r.Err == nil || r.Err.Reason != fsm.ReasonTokenRevoked || r.Err.Code != fsm.Unauthenticated {
				t.Fatalf("%v: got %v, want %s", c, r.Err, fsm.ReasonTokenRevoked)
			}
			if diff := before.WithoutAudit().Diff(after.WithoutAudit()); diff != "" {
				t.Fatalf("%v has changed:\n%s", c, diff)
			}
		}
		if !worked {
			t.Skip("nothing worked before either")
		}
	})
}
