package client_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-metal/holdfast/client"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// The functions below are the Go blocks of docs/clients.md, as TestGuide checks.

func dial(token string) (*client.Client, error) {
	tls, err := client.LoadTLS("/etc/holdfast/ca.pem", "", "") // or a client certificate and its key instead of a token
	if err != nil {
		return nil, err
	}
	return client.Dial(client.Config{
		Addrs: []string{"peer-1:7400", "peer-2:7400", "peer-3:7400"}, // any of them will do
		Token: token,
		TLS:   tls,
	})
}

// reboot starts a run and waits for its end. The ticket is the request id: a second call with it,
// also after a crash of the caller, returns the first run.
func reboot(ctx context.Context, c *client.Client, machine, ticket string) error {
	run, err := c.Runs().StartRun(ctx, &holdfastv1.StartRunRequest{MachineId: machine, RequestId: ticket, Type: "REBOOT"})
	if err != nil {
		return explained(err)
	}
	run, err = c.WaitRun(ctx, run.GetRunId()) // continues with another peer if one fails
	if err != nil {
		return err
	}
	if run.GetPhase() != holdfastv1.Run_SUCCEEDED {
		return fmt.Errorf("run %s: %s at step %s: %s", run.GetRunId(), run.GetPhase(), run.GetError().GetStep(),
			run.GetError().GetMessage())
	}
	return nil
}

// explained reports what an error means for what comes next.
func explained(err error) error {
	var call *client.CallError
	switch {
	case errors.As(err, &call) && call.OutcomeUnknown:
		return fmt.Errorf("it may have been done: ask again with the same request id: %w", err)
	case client.Reason(err) == "ACTIVE_RUN":
		return fmt.Errorf("another run has the machine: %w", err)
	case status.Code(err) == codes.InvalidArgument:
		for _, v := range client.FieldViolations(err) {
			err = fmt.Errorf("%s: %s: %w", v.GetField(), v.GetDescription(), err)
		}
	}
	return err
}

// follow prints the transitions of repaves. It ends with its context. A program that keeps the last
// cursor goes on after it when it is started again.
func follow(ctx context.Context, c *client.Client, w io.Writer, cursor uint64) error {
	return c.WatchRuns(ctx, `type = "REPAVE"`, cursor, func(e *holdfastv1.RunEvent) error {
		if r := e.GetSnapshot(); r != nil { // a bookmark has none: it only moves the cursor
			_, err := fmt.Fprintln(w, e.GetCursor(), r.GetRunId(), r.GetMachineId(), r.GetPhase())
			return err
		}
		return nil
	})
}

// ready lists machines, page by page, as the peer that answers has them.
func ready(ctx context.Context, c *client.Client, pool string) ([]*holdfastv1.Machine, error) {
	ctx = client.WithConsistency(ctx, client.Consistency{Stale: true}) // leave it out for linearizable reads, the default
	var all []*holdfastv1.Machine
	r := &holdfastv1.ListMachinesRequest{Filter: "pool = " + client.Quote(pool) + " AND phase = READY", PageSize: 1000}
	for {
		page, err := c.Machines().ListMachines(ctx, r)
		if err != nil {
			return nil, err
		}
		all = append(all, page.GetMachines()...)
		if r.PageToken = page.GetNextPageToken(); r.GetPageToken() == "" {
			return all, nil
		}
	}
}

// logs copies a run's log until the run has ended.
func logs(ctx context.Context, c *client.Client, w io.Writer, run string) error {
	return c.FollowLogs(ctx, run, 0, func(chunk *holdfastv1.LogChunk) error {
		_, err := w.Write(chunk.GetData())
		return err
	})
}

// TestGuide checks that the Go blocks of the guide are in this file, and runs those that need no
// TLS.
func TestGuide(t *testing.T) {
	page, err := os.ReadFile("../docs/clients.md")
	if err != nil {
		t.Fatal(err)
	}
	code, err := os.ReadFile("guide_test.go")
	if err != nil {
		t.Fatal(err)
	}
	blocks := 0
	for _, part := range strings.Split(string(page), "```go\n")[1:] {
		block, _, ok := strings.Cut(part, "```")
		if blocks++; !ok || !bytes.Contains(code, []byte("\n"+block)) {
			t.Errorf("docs/clients.md has Go that is not in client/guide_test.go:\n%s", block)
		}
	}
	if blocks < 5 {
		t.Errorf("docs/clients.md has %d Go blocks, want at least 5", blocks)
	}

	if c, err := dial("token"); err == nil {
		_ = c.Close()
		t.Error("dial without the CA: got no error")
	}
	cfg, stop := exampleConfig()
	defer stop()
	c, err := client.Dial(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	ctx := t.Context()
	if err := reboot(ctx, c, "m-123", "ticket-1"); err != nil {
		t.Errorf("reboot: %v", err)
	}
	var out bytes.Buffer
	if err := logs(ctx, c, &out, "run-789"); err != nil || out.String() != "power off\npower on\n" {
		t.Errorf("logs: got %q, %v", out.String(), err)
	}
	out.Reset()
	watching, enough := context.WithCancel(ctx)
	defer enough()
	_ = follow(watching, c, writerFunc(func(p []byte) (int, error) {
		if out.Write(p); strings.Contains(out.String(), "SUCCEEDED") {
			enough()
		}
		return len(p), nil
	}), 0)
	if got, want := out.String(), "7 run-789  PENDING\n8 run-789  RUNNING\n9 run-789  SUCCEEDED\n"; got != want {
		t.Errorf("follow: got %q, want %q", got, want)
	}
	// The server of the examples has no machines.
	if _, err := ready(ctx, c, "gpu"); status.Code(explained(err)) != codes.Unimplemented {
		t.Errorf("ready: %v", err)
	}
}

// writerFunc is a function that is a writer.
type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
