package cli

import (
	"cmp"
	"context"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/internal/cli/app"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

func fixtureTokens() []*holdfastv1.Token {
	return []*holdfastv1.Token{
		{TokenId: "tok-1", Name: "bootstrap", Role: holdfastv1.Role_ADMIN, State: "revoked", RevokedAt: ago(time.Hour),
			CreatedAt: ago(48 * time.Hour), CreatedBy: "system", Bootstrap: true},
		{TokenId: "tok-2", Name: "ci", Role: holdfastv1.Role_OPERATOR, Pools: []string{"cpu", "gpu"}, State: "active",
			ExpiresAt: ago(-24 * time.Hour), CreatedAt: ago(time.Hour), CreatedBy: "token:bootstrap", Comment: "for CI"},
		{TokenId: "tok-3", Name: "m-1", Role: holdfastv1.Role_AGENT, MachineId: "m-1", State: "expired",
			ExpiresAt: ago(time.Minute), CreatedAt: ago(2 * time.Hour), CreatedBy: "user:alice"},
		{TokenId: "tok-4", Name: "gpu-agents", Role: holdfastv1.Role_POOL_AGENT, Pools: []string{"gpu"}, State: "active",
			CreatedAt: ago(2 * time.Hour), CreatedBy: "user:alice"},
	}
}

// fixtureTrail returns a valid chain of five events.
func fixtureTrail() []*holdfastv1.AuditEvent {
	events := []*holdfastv1.AuditEvent{
		{Method: "holdfast.v1.AccessService/CreateToken", Resource: "tokens/tok-2", Principal: "token:bootstrap",
			TokenId: "tok-1"},
		{Method: "holdfast.v1.MachineService/RegisterMachine", Resource: "machines/m-123", Principal: "user:alice"},
		{Method: "holdfast.v1.RunService/StartRun", Resource: "machines/m-123/runs/run-789", Principal: "token:ci",
			TokenId: "tok-2", RequestId: "req-456"},
		{Method: "holdfast.v1.SecretService/PutSecret", Principal: "token:ci", TokenId: "tok-2",
			Outcome: "PERMISSION_DENIED", Reason: "ROLE"},
		{Method: "holdfast.v1.RunService/StartRun", Source: "192.0.2.7", Outcome: "UNAUTHENTICATED",
			Reason: "TOKEN_UNKNOWN", Count: 4711},
	}
	var last []byte
	for i, e := range events {
		e.Sequence, e.At, e.Index, e.PreviousHash = uint64(i+1), ago(time.Duration(10-i)*time.Minute), uint64(100+i), last
		e.Source, e.Peer, e.Outcome, e.Count = cmp.Or(e.GetSource(), "10.0.0.9"), "peer-1", cmp.Or(e.GetOutcome(),
			"OK"), max(1, e.GetCount())
		e.Hash = holdfastv1.AuditHash(e)
		last = e.GetHash()
	}
	return events
}

func (f *fakeCluster) WhoAmI(context.Context, *holdfastv1.WhoAmIRequest) (*holdfastv1.Identity, error) {
	return &holdfastv1.Identity{Principal: "token:ci", Role: holdfastv1.Role_OPERATOR, Pools: []string{"cpu", "gpu"},
		TokenId: "tok-2", Method: "token"}, nil
}

func (f *fakeCluster) CreateToken(
	_ context.Context, r *holdfastv1.CreateTokenRequest,
) (*holdfastv1.CreateTokenResponse, error) {
	tok := &holdfastv1.Token{TokenId: "tok-9", Name: r.GetName(), Role: r.GetRole(), Pools: r.GetPools(),
		MachineId: r.GetMachineId(), State: "active"}
	if r.GetTtlSeconds() > 0 {
		tok.ExpiresAt = ago(-time.Duration(r.GetTtlSeconds()) * time.Second)
	}
	return &holdfastv1.CreateTokenResponse{Token: tok, Secret: "the-value"}, nil
}

func (f *fakeCluster) ListTokens(
	_ context.Context, r *holdfastv1.ListTokensRequest,
) (*holdfastv1.ListTokensResponse, error) {
	items, next := page(f.tokens, (*holdfastv1.Token).GetTokenId, r.GetPageSize(), r.GetPageToken())
	return &holdfastv1.ListTokensResponse{Tokens: items, NextPageToken: next}, nil
}

func (f *fakeCluster) RevokeToken(_ context.Context, r *holdfastv1.RevokeTokenRequest) (*holdfastv1.Token, error) {
	t := &holdfastv1.Token{TokenId: r.GetTokenId()}
	for _, known := range f.tokens {
		if known.GetTokenId() == r.GetTokenId() {
			t = proto.CloneOf(known)
		}
	}
	t.State = "revoked"
	return t, nil
}

// newest returns the trail as it is listed.
func (f *fakeCluster) newest() []*holdfastv1.AuditEvent {
	events := slices.Clone(f.trail)
	slices.Reverse(events)
	return events
}

func (f *fakeCluster) ListAuditEvents(
	_ context.Context, r *holdfastv1.ListAuditEventsRequest,
) (*holdfastv1.ListAuditEventsResponse, error) {
	items, next := page(f.newest(), func(e *holdfastv1.AuditEvent) string { return app.Number(e.GetSequence()) },
		r.GetPageSize(), r.GetPageToken())
	return &holdfastv1.ListAuditEventsResponse{Events: items, NextPageToken: next}, nil
}

func (f *fakeCluster) ExportAuditEvents(
	r *holdfastv1.ExportAuditEventsRequest, s grpc.ServerStreamingServer[holdfastv1.AuditEvent],
) error {
	if err := f.take(s.Context(), r); err != nil {
		return err
	}
	for _, e := range f.trail {
		if e.GetSequence() < r.GetFromSequence() {
			continue
		}
		if err := s.Send(e); err != nil {
			return err
		}
	}
	return f.rest(s.Context())
}

func TestTokenCreate(t *testing.T) {
	f := startCluster(t, fixture())
	for _, tt := range []struct {
		args, note string
		want       *holdfastv1.CreateTokenRequest
	}{
		{"--name ci --role operator --pool a,b --ttl 90d --comment x",
			"tok-9 for operator ci (pool a,b), valid until 2026-04-29T15:20:00Z: shown once",
			&holdfastv1.CreateTokenRequest{Name: "ci", Role: holdfastv1.Role_OPERATOR, Pools: []string{"a", "b"},
				TtlSeconds: 90 * 24 * 3600, Comment: "x"}},
		{"--name alice --role ADMIN", "tok-9 for admin alice, valid until it is revoked",
			&holdfastv1.CreateTokenRequest{Name: "alice", Role: holdfastv1.Role_ADMIN}},
		{"--name bob --role admin --ttl never", "valid until it is revoked",
			&holdfastv1.CreateTokenRequest{Name: "bob", Role: holdfastv1.Role_ADMIN, NeverExpires: true}},
		{"--name gpus --pool gpu", "pool-agent gpus (pool gpu)", &holdfastv1.CreateTokenRequest{Name: "gpus",
			Role: holdfastv1.Role_POOL_AGENT, Pools: []string{"gpu"}}},
		{"--name m --machine m-1 --ttl 36h", "agent m (machine m-1)",
			&holdfastv1.CreateTokenRequest{Name: "m", Role: holdfastv1.Role_AGENT, MachineId: "m-1", TtlSeconds: 36 * 3600}},
		{"--name p --role pool-agent --pool gpu", "", &holdfastv1.CreateTokenRequest{Name: "p",
			Role: holdfastv1.Role_POOL_AGENT, Pools: []string{"gpu"}}},
	} {
		var c command
		c.wantCode(t, c.run(t, f, append([]string{"token", "create"}, strings.Fields(tt.args)...)...), app.ExitOK)
		all := asked[*holdfastv1.CreateTokenRequest](f)
		if got := all[len(all)-1]; !proto.Equal(got, tt.want) {
			t.Errorf("%s: got request %v, want %v", tt.args, got, tt.want)
		}
		if got := c.out.String(); got != "the-value\n" {
			t.Errorf("%s: got output %q, want only the value", tt.args, got)
		}
		wantIn(t, "stderr", c.err.String(), tt.note)
	}
	var c command
	c.wantCode(t, c.run(t, f, "token", "create", "--name", "ci", "--role", "viewer", "-o", "json"), app.ExitOK)
	wantIn(t, "out", c.out.String(), `"secret": "the-value"`, `"token_id": "tok-9"`)
}

func TestTokenCreateUsage(t *testing.T) {
	f := startCluster(t, fixture())
	for args, want := range map[string]string{
		"--name ci":                           "--role is missing",
		"--name ci --pool a,b":                "--role is missing",
		"--name ci --role root":               `"root" is not one of`,
		"--name ci --role role_unspecified":   "is not one of",
		"--name ci --role admin --ttl soon":   `"soon" is not a time`,
		"--name ci --role admin --ttl 0d":     `"0d" is not a time`,
		"--name ci --role admin --ttl -5m":    `"-5m" is not a time`,
		"--name ci --role admin -o name":      "would be lost",
		"--name ci --role admin unexpected-1": "unexpected argument",
	} {
		var c command
		c.wantCode(t, c.run(t, f, append([]string{"token", "create"}, strings.Fields(args)...)...), app.ExitUsage)
		wantIn(t, args, c.err.String(), want)
	}
	if len(f.requests) > 0 {
		t.Errorf("got %d requests, want 0", len(f.requests))
	}
}

func TestTokenRevoke(t *testing.T) {
	value := strings.Repeat("v", 86)
	f := fixture()
	f.refuse = func(req proto.Message) error {
		if r, ok := req.(*holdfastv1.RevokeTokenRequest); ok && r.GetTokenId() == value {
			return refusal(t, codes.InvalidArgument, "token_id: is not the id of a token")
		}
		return nil
	}
	startCluster(t, f)
	var c command
	c.wantCode(t, c.run(t, f, "token", "revoke", "tok-1", "tok-2", "--yes"), app.ExitOK)
	wantIn(t, "stderr", c.err.String(), "revoked token tok-1", "revoked token tok-2")
	var wrong command
	for _, how := range []string{"", "--yes", "--dry-run"} {
		wrong.wantCode(t, wrong.run(t, f, strings.Fields("token revoke "+value+" "+how)...), app.ExitUsage)
		if strings.Contains(wrong.err.String(), value) {
			t.Errorf("%s: got the value of a token: %s", how, wrong.err.String())
		}
	}
}

// end returns the value of --after for the trail up to an event.
func end(e *holdfastv1.AuditEvent) string {
	return fmt.Sprintf("%d:%s", e.GetSequence(), hex.EncodeToString(e.GetHash()))
}

func TestAuditVerify(t *testing.T) {
	trail := fixtureTrail()
	for _, tt := range []struct {
		name   string
		change func([]*holdfastv1.AuditEvent) []*holdfastv1.AuditEvent
		args   []string
		code   int
		out    string
		err    string
	}{
		{"whole", nil, nil, app.ExitOK, "yes 1 5 5 " + end(trail[4]), ""},
		{"nothing yet", func([]*holdfastv1.AuditEvent) []*holdfastv1.AuditEvent { return nil }, nil, app.ExitOK,
			"yes - - - -",
			""},
		{"truncated", func(es []*holdfastv1.AuditEvent) []*holdfastv1.AuditEvent { return es[2:] }, nil, app.ExitOK,
			"yes 3 5 3",
			"the events before 3 were not verified; event 3 follows an event with hash " +
				hex.EncodeToString(trail[1].GetHash())},
		{"changed", func(es []*holdfastv1.AuditEvent) []*holdfastv1.AuditEvent { es[2].Principal = "user:bob"; return es },
			nil, app.ExitError, "no 1 2 2",
			"broken, after 2 verified events: event 3 has hash"},
		{"omitted", func(es []*holdfastv1.AuditEvent) []*holdfastv1.AuditEvent { return slices.Delete(es, 2, 3) }, nil,
			app.ExitError, "no 1 2 2", "event 3 is missing"},
		{"rehashed", func(es []*holdfastv1.AuditEvent) []*holdfastv1.AuditEvent {
			es[2].Principal = "user:bob"
			es[2].Hash = holdfastv1.AuditHash(es[2])
			return es
		}, nil, app.ExitError, "no 1 3 3", "event 4 follows an event with hash"},
		{"after", nil, []string{"--after", end(trail[1])}, app.ExitOK, "yes 2 5 4", ""},
		{"after the newest", nil, []string{"--after", end(trail[4])}, app.ExitOK, "yes 5 5 1", ""},
		{"after another trail", nil, []string{"--after", "2:" + strings.Repeat("ab", 32)}, app.ExitError, "no",
			"but it had hash abab"},
		{"cut off", func(es []*holdfastv1.AuditEvent) []*holdfastv1.AuditEvent { return es[:4] },
			[]string{"--after", end(trail[4])}, app.ExitError, "no", "it ends with event 0, but event 5 was verified before"},
		{"invalid --after", nil, []string{"--after", "5"}, app.ExitUsage, "", "is not SEQUENCE:HASH"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := fixture()
			if tt.change != nil {
				f.trail = tt.change(f.trail)
			}
			startCluster(t, f)
			var c command
			c.wantCode(t, c.run(t, f, append([]string{"audit", "verify"}, tt.args...)...), tt.code)
			wantIn(t, "out", strings.Join(strings.Fields(c.out.String()), " "), tt.out)
			wantIn(t, "stderr", c.err.String(), tt.err)
			if tt.err == "" && c.err.String() != "" {
				t.Errorf("got stderr %q, want none", c.err.String())
			}
		})
	}
}

// TestAuditExportVerifies exports, verifies the file, and then changes it.
func TestAuditExportVerifies(t *testing.T) {
	f := startCluster(t, fixture())
	var c command
	c.wantCode(t, c.run(t, f, "audit", "export"), app.ExitOK)
	if got := strings.Count(c.out.String(), "\n"); got != 5 {
		t.Fatalf("got %d lines, want 5:\n%s", got, c.out.String())
	}
	file := filepath.Join(t.TempDir(), "audit.jsonl")
	verify := func(text string, want int, words ...string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, args := range [][]string{{"-f", file}, {"-f", "-"}} {
			v := command{in: text}
			v.wantCode(t, v.run(t, nil, append([]string{"audit", "verify", "-o", "json"}, args...)...), want)
			wantIn(t, "out and stderr", v.out.String()+v.err.String(), words...)
		}
	}
	verify(c.out.String(), app.ExitOK, `"whole": true`, `"last_sequence": 5`, `"newest": "5:`)
	verify(strings.Replace(c.out.String(), "user:alice", "user:mallory", 1), app.ExitError, `"whole": false`,
		"event 2 has hash")
	verify(c.out.String()+"{}\n", app.ExitError, "no sequence number")
	verify(c.out.String()+"nonsense\n", app.ExitError, ":6 is no audit event")
	var part command
	part.wantCode(t, part.run(t, f, "audit", "export", "--from", "4"), app.ExitOK)
	verify(part.out.String(), app.ExitOK, `"first_sequence": 4`, `"after": "`)
	var missing command
	missing.wantCode(t, missing.run(t, nil, "audit", "verify", "-f", filepath.Join(t.TempDir(), "none")), app.ExitUsage)
}
