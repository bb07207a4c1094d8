package cli_test

import (
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/cli/clitest"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

func TestTokenCreate(t *testing.T) {
	f := clitest.Start(t, clitest.Fixture())
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
		var c clitest.Command
		c.WantCode(t, c.Run(t, f, append([]string{"token", "create"}, strings.Fields(tt.args)...)...), app.ExitOK)
		all := clitest.Asked[*holdfastv1.CreateTokenRequest](f)
		if got := all[len(all)-1]; !proto.Equal(got, tt.want) {
			t.Errorf("%s: got request %v, want %v", tt.args, got, tt.want)
		}
		if got := c.Out.String(); got != "the-value\n" {
			t.Errorf("%s: got output %q, want only the value", tt.args, got)
		}
		clitest.WantIn(t, "stderr", c.Err.String(), tt.note)
	}
	var c clitest.Command
	c.WantCode(t, c.Run(t, f, "token", "create", "--name", "ci", "--role", "viewer", "-o", "json"), app.ExitOK)
	clitest.WantIn(t, "out", c.Out.String(), `"secret": "the-value"`, `"token_id": "tok-9"`)
}

func TestTokenCreateUsage(t *testing.T) {
	f := clitest.Start(t, clitest.Fixture())
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
		var c clitest.Command
		c.WantCode(t, c.Run(t, f, append([]string{"token", "create"}, strings.Fields(args)...)...), app.ExitUsage)
		clitest.WantIn(t, args, c.Err.String(), want)
	}
	if len(f.Requests) > 0 {
		t.Errorf("got %d requests, want 0", len(f.Requests))
	}
}

func TestTokenRevoke(t *testing.T) {
	value := strings.Repeat("v", 86)
	f := clitest.Fixture()
	f.Refuse = func(req proto.Message) error {
		if r, ok := req.(*holdfastv1.RevokeTokenRequest); ok && r.GetTokenId() == value {
			return clitest.Refusal(t, codes.InvalidArgument, "token_id: is not the id of a token")
		}
		return nil
	}
	clitest.Start(t, f)
	var c clitest.Command
	c.WantCode(t, c.Run(t, f, "token", "revoke", "tok-1", "tok-2", "--yes"), app.ExitOK)
	clitest.WantIn(t, "stderr", c.Err.String(), "revoked token tok-1", "revoked token tok-2")
	var wrong clitest.Command
	for _, how := range []string{"", "--yes", "--dry-run"} {
		wrong.WantCode(t, wrong.Run(t, f, strings.Fields("token revoke "+value+" "+how)...), app.ExitUsage)
		if strings.Contains(wrong.Err.String(), value) {
			t.Errorf("%s: got the value of a token: %s", how, wrong.Err.String())
		}
	}
}

// end returns the value of --after for the trail up to an event.
func end(e *holdfastv1.AuditEvent) string {
	return fmt.Sprintf("%d:%s", e.GetSequence(), hex.EncodeToString(e.GetHash()))
}

func TestAuditVerify(t *testing.T) {
	trail := clitest.FixtureTrail()
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
			f := clitest.Fixture()
			if tt.change != nil {
				f.Trail = tt.change(f.Trail)
			}
			clitest.Start(t, f)
			var c clitest.Command
			c.WantCode(t, c.Run(t, f, append([]string{"audit", "verify"}, tt.args...)...), tt.code)
			clitest.WantIn(t, "out", strings.Join(strings.Fields(c.Out.String()), " "), tt.out)
			clitest.WantIn(t, "stderr", c.Err.String(), tt.err)
			if tt.err == "" && c.Err.String() != "" {
				t.Errorf("got stderr %q, want none", c.Err.String())
			}
		})
	}
}

// TestAuditExportVerifies exports, verifies the file, and then changes it.
func TestAuditExportVerifies(t *testing.T) {
	f := clitest.Start(t, clitest.Fixture())
	var c clitest.Command
	c.WantCode(t, c.Run(t, f, "audit", "export"), app.ExitOK)
	if got := strings.Count(c.Out.String(), "\n"); got != 5 {
		t.Fatalf("got %d lines, want 5:\n%s", got, c.Out.String())
	}
	file := filepath.Join(t.TempDir(), "audit.jsonl")
	verify := func(text string, want int, words ...string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, args := range [][]string{{"-f", file}, {"-f", "-"}} {
			v := clitest.Command{In: text}
			v.WantCode(t, v.Run(t, nil, append([]string{"audit", "verify", "-o", "json"}, args...)...), want)
			clitest.WantIn(t, "out and stderr", v.Out.String()+v.Err.String(), words...)
		}
	}
	verify(c.Out.String(), app.ExitOK, `"whole": true`, `"last_sequence": 5`, `"newest": "5:`)
	verify(strings.Replace(c.Out.String(), "user:alice", "user:mallory", 1), app.ExitError, `"whole": false`,
		"event 2 has hash")
	verify(c.Out.String()+"{}\n", app.ExitError, "no sequence number")
	verify(c.Out.String()+"nonsense\n", app.ExitError, ":6 is no audit event")
	var part clitest.Command
	part.WantCode(t, part.Run(t, f, "audit", "export", "--from", "4"), app.ExitOK)
	verify(part.Out.String(), app.ExitOK, `"first_sequence": 4`, `"after": "`)
	var missing clitest.Command
	missing.WantCode(t, missing.Run(t, nil, "audit", "verify", "-f", filepath.Join(t.TempDir(), "none")), app.ExitUsage)
}
