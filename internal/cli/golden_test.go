package cli_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"sigs.k8s.io/yaml"

	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/cli/clitest"
)

func TestOutput(t *testing.T) {
	f := clitest.Start(t, clitest.Fixture())
	for _, args := range []string{
		"machine list", "machine list -o wide", "machine list -o name", "machine list --no-headers",
		"machine get m-123", "machine get m-123 -o wide", "machine get m-125", "machine get m-125 -o yaml",
		"machine history m-124", "machine history m-124 -o wide", "machine why m-123",
		"plan list", "plan list -o wide", "plan get plan-repave-ubuntu-2204-v1", "plan list -o name",
		"run list", "run list -o wide", "run get run-789", "run get run-788", "run list -o name",
		"run get run-788 -o json", "pool get pool-1 -o json", "machine get m-124 -o json",
		"run logs run-789 --offset 10",
		"token list", "token list -o wide", "token list -o name", "whoami",
		"audit list", "audit list -o wide",
		"pool list", "pool list -o wide", "pool list -o name", "pool get pool-1", "service list", "service list -o wide",
		"service get 550e8400-e29b-41d4-a716-446655440000", "node stalled", "node stalled -o wide",
		"cluster status", "cluster status -o wide", "cluster status -o name",
	} {
		t.Run(args, func(t *testing.T) {
			var c clitest.Command
			c.WantCode(t, c.Run(t, f, strings.Fields(args)...), app.ExitOK)
			if c.Err.String() != "" {
				t.Errorf("got standard error:\n%s", c.Err.String())
			}
			clitest.Golden(t, strings.NewReplacer(" ", "_", "/", "-").Replace(args)+".golden", c.Out.String())
		})
	}
}

// Machine-readable output has the API's complete messages, with the API's names.
func TestMachineReadableOutput(t *testing.T) {
	f := clitest.Start(t, clitest.Fixture())
	for _, tt := range []struct {
		args string
		key  string // of a list
		want []proto.Message
	}{
		{"machine list", "machines", messages(f.Machines)},
		{"machine get m-123", "", messages(f.Machines[:1])},
		{"machine history m-124", "entries", messages(f.History)},
		{"machine why m-123", "", []proto.Message{f.Why}},
		{"plan list", "plans", messages(f.Plans)},
		{"plan get plan/reboot", "", messages(f.Plans[1:])},
		{"run list", "runs", messages(f.Runs)},
		{"run get run-789", "", messages(f.Runs[:1])},
		{"token list", "tokens", messages(f.Tokens)},
		{"audit list", "events", messages(f.Newest())},
		{"pool list", "pools", messages(f.Pools)},
		{"service list", "services", messages(f.Services)},
		{"cluster status", "", []proto.Message{f.Cluster}},
	} {
		for _, format := range []string{"json", "yaml"} {
			var c clitest.Command
			c.WantCode(t, c.Run(t, f, append(strings.Fields(tt.args), "-o", format)...), app.ExitOK)
			raw, err := yaml.YAMLToJSON([]byte(c.Out.String()))
			if err != nil {
				t.Fatalf("%s -o %s: %v", tt.args, format, err)
			}
			items := []json.RawMessage{raw}
			if tt.key != "" {
				var list map[string][]json.RawMessage
				if err := json.Unmarshal(raw, &list); err != nil || len(list) != 1 {
					t.Fatalf("%s -o %s: %v in %s", tt.args, format, err, raw)
				}
				items = list[tt.key]
			}
			var got []proto.Message
			for _, item := range items {
				m := tt.want[0].ProtoReflect().New().Interface()
				if err := protojson.Unmarshal(item, m); err != nil {
					t.Fatalf("%s -o %s: %v", tt.args, format, err)
				}
				got = append(got, m)
			}
			if diff := cmp.Diff(tt.want, got, protocmp.Transform()); diff != "" {
				t.Errorf("%s -o %s (-want +got):\n%s", tt.args, format, diff)
			}
		}
	}
	var c clitest.Command
	c.WantCode(t, c.Run(t, f, "machine", "get", "m-123", "-o", "json"), app.ExitOK)
	clitest.WantIn(t, "JSON", c.Out.String(), "{\n  \"machine_id\": \"m-123\",\n  \"labels\": {\n    \"env\": \"prod\"",
		`"status": false`, `"banners": []`)
}

func messages[M proto.Message](items []M) []proto.Message {
	out := make([]proto.Message, len(items))
	for i, m := range items {
		out[i] = m
	}
	return out
}

func TestColorOnlyOnTerminal(t *testing.T) {
	f := clitest.Start(t, clitest.Fixture())
	for _, tt := range []struct {
		name     string
		terminal bool
		env      map[string]string
		want     bool
	}{
		{"terminal", true, nil, true},
		{"pipe", false, nil, false},
		{"NO_COLOR", true, map[string]string{"NO_COLOR": "1"}, false},
		{"dumb terminal", true, map[string]string{"TERM": "dumb"}, false},
	} {
		c := clitest.Command{Terminal: tt.terminal, Env: tt.env}
		c.WantCode(t, c.Run(t, f, "machine", "list"), app.ExitOK)
		if got := strings.Contains(c.Out.String(), "\x1b["); got != tt.want {
			t.Errorf("%s: got colors %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestLimitIsReportedOnStderr(t *testing.T) {
	f := clitest.Start(t, clitest.Fixture())
	var c clitest.Command
	c.WantCode(t, c.Run(t, f, "machine", "list", "--limit", "2", "-o", "name"), app.ExitOK)
	if got, want := c.Out.String(), "m-123\nm-124\n"; got != want {
		t.Errorf("got output %q, want %q", got, want)
	}
	clitest.WantIn(t, "stderr", c.Err.String(), "only the first 2 are shown")

	c = clitest.Command{}
	c.WantCode(t, c.Run(t, f, "machine", "list", "--limit", "3", "-o", "name"), app.ExitOK)
	if c.Err.String() != "" {
		t.Errorf("without a limit: got stderr %q, want none", c.Err.String())
	}
}

func TestHelp(t *testing.T) {
	var commands func(prefix []string, t *testing.T)
	commands = func(prefix []string, t *testing.T) {
		var c clitest.Command
		c.WantCode(t, c.Run(t, nil, append(prefix, "--help")...), app.ExitOK)
		out := c.Out.String()
		name := strings.Join(prefix, " ")
		if !strings.Contains(out, "Examples:") {
			t.Errorf("help of %q: got no examples:\n%s", name, out)
		}
		_, list, ok := strings.Cut(out, "\nCommands:\n")
		if !ok {
			return
		}
		list, _, _ = strings.Cut(list, "\n\n")
		for line := range strings.Lines(list) {
			commands(append(slices.Clip(prefix), strings.Fields(line)[0]), t)
		}
	}
	for _, noun := range []string{"machine", "plan", "run", "cluster", "context", "version"} {
		commands([]string{noun}, t)
	}

	var c clitest.Command
	c.WantCode(t, c.Run(t, nil), app.ExitOK)
	clitest.WantIn(t, "help", c.Out.String(), "Exit codes:", "5  the run failed or was canceled", "HOLDFAST_ADDR",
		"machine",
		"context")
}
