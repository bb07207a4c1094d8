package tracing

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/holdfast-metal/holdfast/internal/localcluster"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/test/program"
)

const (
	patience = 5 * time.Minute
	// traceID is the trace of the caller.
	traceID = "4bf92f3577b34da6a3ce929d0e0e4736"
	// content is in a request and must not be in traces.
	content = "correct-horse-battery"
)

func TestTraces(t *testing.T) {
	r, dir, binary := newReceiver(t), t.TempDir(), program.Holdfast(t)
	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	hw, err := localcluster.StartFakeHardware(ctx, binary, dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = hw.Close() })
	c, err := localcluster.Start(ctx, localcluster.Config{Binary: binary, Dir: filepath.Join(dir, "cluster"),
		RaftMultiplier: 2, FakeEndpoint: hw.Endpoint,
		Args: []string{"--tracing-url", r.url}, Env: []string{"OTEL_BSP_SCHEDULE_DELAY=200"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			for _, p := range c.Peers() {
				t.Logf("log of %s:\n%s", p.ID, p.LogTail(3000))
			}
		}
		_ = c.Close()
	})
	leader, err := c.Leader(ctx)
	if err != nil {
		t.Fatal(err)
	}
	peers := c.Peers()
	follower := peers[slices.IndexFunc(peers, func(p *localcluster.Peer) bool { return p.ID != leader.ID })]
	cc, err := grpc.NewClient(follower.GRPCAddr, grpc.WithTransportCredentials(c.Credentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cc.Close() })

	if _, err := holdfastv1.NewMachineServiceClient(cc).RegisterMachine(ctx, &holdfastv1.RegisterMachineRequest{
		Machine: &holdfastv1.Machine{MachineId: "m-1", Labels: map[string]string{"note": content},
			Spec: &holdfastv1.MachineSpec{Provider: "fake"}}}); err != nil {
		t.Fatal(err)
	}
	mine := metadata.AppendToOutgoingContext(ctx, "traceparent", "00-"+traceID+"-00f067aa0ba902b7-01")
	run, err := holdfastv1.NewRunServiceClient(cc).StartRun(mine,
		&holdfastv1.StartRunRequest{MachineId: "m-1", RequestId: "r-1", Type: "REBOOT"})
	if err != nil {
		t.Fatal(err)
	}

	const method = "holdfast.v1.RunService/StartRun"
	wanted := map[string]func(span) bool{
		"the follower's call": func(s span) bool {
			return s.trace == traceID && s.peer != "" &&
				strings.HasSuffix(s.name, method)
		},
		"the commit": func(s span) bool {
			return s.trace == traceID && s.name == "raft commit" && s.attrs["holdfast.command"] == "start_run" &&
				s.attrs["holdfast.index"] == "set"
		},
		"an attempt": func(s span) bool {
			return strings.HasPrefix(s.name, "attempt ") && s.attrs["holdfast.run"] == run.GetRunId() &&
				s.attrs["holdfast.machine"] == "m-1" && s.attrs["holdfast.attempt"] == "set" &&
				s.attrs["holdfast.outcome"] == "SUCCEEDED"
		},
		"the attempt's intent": func(s span) bool {
			return s.trace != traceID && s.parent != "" && s.attrs["holdfast.command"] == "begin_attempt"
		},
	}
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		spans, raw := r.got()
		var missing []string
		for name, is := range wanted {
			if !slices.ContainsFunc(spans, is) {
				missing = append(missing, name)
			}
		}
		if !handed(spans, method) {
			missing = append(missing, "a trace over two peers")
		}
		if len(missing) == 0 {
			if strings.Contains(strings.Join(raw, ""), content) {
				t.Error("got the content of a request in the traces")
			}
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("got no span for %s:\n%+v", strings.Join(missing, " or for "), spans)
		}
	}
}

// handed reports whether the spans of a call lead from one peer to another: served, forwarded,
// served and committed there, each the child of the one before.
func handed(spans []span, method string) bool {
	byID := map[string]span{}
	for _, s := range spans {
		if s.trace == traceID {
			byID[s.id] = s
		}
	}
	for _, commit := range byID {
		there := byID[commit.parent]
		on := byID[there.parent]
		here := byID[on.parent]
		if commit.name == "raft commit" && commit.peer == there.peer && strings.HasSuffix(there.name, method) &&
			strings.HasSuffix(on.name, method) && strings.HasSuffix(here.name, method) &&
			on.peer == here.peer && here.peer != there.peer {
			return true
		}
	}
	return false
}
