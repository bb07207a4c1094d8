package cli_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/cli/clitest"
	"github.com/holdfast-metal/holdfast/internal/cli/output"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Lists of agents, pools and services can be watched: each item is printed once, and after each
// change.
func TestFleetIsWatched(t *testing.T) {
	for line, want := range map[string][]string{
		"service list -w":              {"SERVICE", "my-tool", "files", "my-tool"},
		"service list -w --no-headers": {"my-tool", "files", "my-tool"},
		"service list -w -o name":      {"0000", "0001", "0000"},
		"pool list -w":                 {"POOL", "cpu", "pool-1", "pool-2"},
		"node list -w":                 {"NODE", "m-123", "m-124", "m-125"},
	} {
		t.Run(line, func(t *testing.T) {
			f := clitest.Fixture()
			f.Open = true
			clitest.Start(t, f)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			c := clitest.Command{Ctx: ctx}
			done := make(chan int)
			go func() { done <- c.Run(t, f, strings.Fields(line)...) }()
			clitest.Eventually(t, "all lines", func() bool { return strings.Count(c.Out.String(), "\n") >= len(want) })
			cancel()
			c.WantCode(t, <-done, app.ExitOK)
			lines := strings.Split(strings.TrimSpace(c.Out.String()), "\n")
			for i, w := range want {
				if len(lines) != len(want) || !strings.Contains(lines[i], w) {
					t.Fatalf("got\n%s\nwant lines with %q", c.Out.String(), want)
				}
			}
		})
	}
}

func TestMachineCreate(t *testing.T) {
	f := clitest.Start(t, clitest.Fixture())
	var c clitest.Command
	c.WantCode(t, c.Run(t, f, "machine", "create", "--pool", "gpu", "--ttl", "1d"), app.ExitOK)
	if got := c.Out.String(); got != "the-token\n" {
		t.Errorf("got output %q, want only the token", got)
	}
	clitest.WantIn(t, "stderr", c.Err.String(), "machine 0a1b2c3d in pool gpu awaits its agent", "tok-9")
	want := &holdfastv1.CreateAgentMachineRequest{Pool: "gpu", TtlSeconds: 24 * 3600}
	if got := clitest.Asked[*holdfastv1.CreateAgentMachineRequest](f); len(got) != 1 || !proto.Equal(got[0], want) {
		t.Errorf("got request %v, want %v", got, want)
	}
	for args, want := range map[string]string{"": "--pool is missing", "--pool gpu -o name": "would be lost"} {
		var c clitest.Command
		c.WantCode(t, c.Run(t, f, append([]string{"machine", "create"}, strings.Fields(args)...)...), app.ExitUsage)
		clitest.WantIn(t, args, c.Err.String(), want)
	}
}

// The workflow is set before the approval.
func TestNodeApprove(t *testing.T) {
	f := clitest.Start(t, clitest.Fixture())
	var c clitest.Command
	c.WantCode(t, c.Run(t, f, "node", "approve", "m-1", "--workflow", "plan/x", "--comment", "c", "--yes"), app.ExitOK)
	up, move := clitest.Asked[*holdfastv1.UpdateNodeRequest](f), clitest.Asked[*holdfastv1.TransitionNodeRequest](f)
	if len(up) != 1 || up[0].GetNode().GetWorkflowId() != "plan/x" ||
		strings.Join(up[0].GetPaths(), ",") != "workflow_id" {
		t.Errorf("got updates %v, want only the workflow", up)
	}
	want := &holdfastv1.TransitionNodeRequest{Id: "m-1", State: holdfastv1.Node_PENDING, Comment: "c"}
	if len(move) != 1 || !proto.Equal(move[0], want) {
		t.Errorf("got transitions %v, want %v", move, want)
	}
	var bad clitest.Command
	bad.WantCode(t, bad.Run(t, f, "node", "state", "m-1", "gone"), app.ExitUsage)
	clitest.WantIn(t, "stderr", bad.Err.String(), `"gone" is not one of discovered, pending`)
}

// TestNodeStalledReadsAllPages has more nodes than one page.
func TestNodeStalledReadsAllPages(t *testing.T) {
	f := clitest.Fixture()
	for n := range output.PageSize + 1 {
		f.Stalled = append(f.Stalled, clitest.FixtureNode(fmt.Sprintf("m-%d", n)))
	}
	clitest.Start(t, f)
	var c clitest.Command
	c.WantCode(t, c.Run(t, f, "node", "stalled", "--after", "30m", "-o", "name"), app.ExitOK)
	if got := strings.Count(c.Out.String(), "\n"); got != output.PageSize+1 {
		t.Errorf("got %d listed nodes, want %d", got, output.PageSize+1)
	}
	for _, r := range clitest.Asked[*holdfastv1.ListStalledNodesRequest](f) {
		if r.GetOlderThanSeconds() != 30*60 {
			t.Errorf("got request %v, want the same for each page", r)
		}
	}
}

func TestNodeTag(t *testing.T) {
	f := clitest.Start(t, clitest.Fixture())
	for _, args := range []string{"node tag m-1 gpu rack-7", "node tag m-1 gpu --remove"} {
		var c clitest.Command
		c.WantCode(t, c.Run(t, f, strings.Fields(args)...), app.ExitOK)
		clitest.WantIn(t, args, c.Out.String(), "m-1")
	}
	var got []string
	for _, r := range clitest.Asked[*holdfastv1.UpdateNodeRequest](f) {
		got = append(got, r.GetId()+" "+strings.Join(r.GetPaths(), ",")+" "+strings.Join(r.GetNode().GetTags(), ","))
	}
	if diff := cmp.Diff([]string{"m-1 tags.add gpu,rack-7", "m-1 tags.remove gpu"}, got); diff != "" {
		t.Error(diff)
	}
	var c clitest.Command
	c.WantCode(t, c.Run(t, f, "node", "tag", "m-1"), app.ExitUsage)
	clitest.WantIn(t, "stderr", c.Err.String(), "TAG... is missing")
}

func TestFleetVerbs(t *testing.T) {
	f := clitest.Start(t, clitest.Fixture())
	for args, want := range map[string]string{
		"pool create gpu --gpu-type H100 --label a=b":                   "gpu",
		"machine bmc-retry m-1 m-2":                                     "allowed logins to the BMC of machine m-2",
		"pool delete cpu gpu --yes":                                     "deleted pool gpu",
		"service deregister 550e8400-e29b-41d4-a716-446655440000 --yes": "deregistered service",
		"node state m-1 active --force":                                 "active",
		"node get m-1 -o yaml":                                          "install_attempts: 2",
		"node history m-124":                                            "FACET",
	} {
		var c clitest.Command
		c.WantCode(t, c.Run(t, f, strings.Fields(args)...), app.ExitOK)
		clitest.WantIn(t, args, c.Out.String()+c.Err.String(), want)
	}
	var c clitest.Command
	c.WantCode(t, c.Run(t, f, "pool", "get", "nowhere"), app.ExitNotFound)
}
