package cli_test

import (
	"testing"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/internal/cli"
	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/cli/clitest"
)

// Unsuitable terminals are refused before any request.
func TestTopNeedsTerminal(t *testing.T) {
	for _, tt := range []struct {
		name     string
		terminal bool
		term     string
		args     []string
		want     string
	}{
		{"pipe", false, "xterm", nil, "standard output is not a terminal"},
		{"dumb", true, "dumb", nil, "TERM=dumb"},
		{"too often", true, "xterm", []string{"--every", "1ms"}, "give 200ms or more"},
		{"argument", true, "xterm", []string{"m-1"}, `unexpected argument "m-1"`},
	} {
		c := clitest.Command{Terminal: tt.terminal, Env: map[string]string{"TERM": tt.term}}
		c.WantCode(t, c.Run(t, nil, append([]string{"top"}, tt.args...)...), app.ExitUsage)
		clitest.WantIn(t, tt.name, c.Err.String(), "holdfast top: ", tt.want)
	}
}

// The view counts all machines over all pages, and lists the machines of `machine issues`.
func TestTopCountsTheFleet(t *testing.T) {
	f := clitest.Start(t, clitest.Fixture())
	c, err := client.Dial(client.Config{Addrs: []string{f.Addr}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	got, err := cli.NewTopSource(c).Fleet(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	sum, issues := 0, 0
	for _, n := range got.States {
		sum += n
	}
	for _, m := range f.Machines {
		if len(m.GetStatus().GetIssues()) > 0 {
			issues++
		}
	}
	if got.Total != len(f.Machines) || sum != got.Total || len(got.Issues) != issues || issues == 0 {
		t.Errorf("got %d machines, %d in states, %d with issues, want %d, %d and any", got.Total, sum, len(got.Issues),
			len(f.Machines), issues)
	}
}
