package crash

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-metal/holdfast/client"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/test/crash/harness"
)

// TestStreamsSurviveKills checks that watchers and log tails that lose their peer continue at
// another one: each transition once and in order, each byte once.
func TestStreamsSurviveKills(t *testing.T) {
	long(t)
	t.Parallel()
	c := bench.Cluster(t, harness.Options{})
	c.Plan("talk", step("talk", &holdfastv1.SshCommand{Script: talkScript}))
	c.Plan("flood", step("flood", &holdfastv1.SshCommand{Script: floodScript}))
	c.Plan("work", step("boot", &holdfastv1.SetNetboot{Mode: "PXE"}), step("restart", &holdfastv1.Reboot{Mode: "bmc"}),
		step("join", &holdfastv1.KubeadmJoin{ClusterRef: joined}))

	ctx, stop := context.WithTimeout(t.Context(), 3*harness.Patience)
	defer stop()
	c.Plan("nothing", step("nothing", &holdfastv1.SshCommand{Command: "true"}))
	c.Register("m-first")
	watchers := watchAll(ctx, t, c)
	c.Ended(c.Start("m-first", "nothing").GetRunId())
	for _, w := range watchers {
		harness.Until(t, w.name+" to watch", func() (bool, any) { return len(w.events()) > 0, w.name })
	}
	var tails []*tailed
	ids := map[string]string{}
	start := func(machine, plan string) string {
		c.Register(machine)
		id := c.Start(machine, plan).GetRunId()
		ids[id] = plan
		return id
	}
	// Three peers die in turn: the leader, a follower with watchers, and the next leader.
	for round := range 3 {
		for i := range 4 {
			start(fmt.Sprintf("m-work-%d-%d", round, i), "work")
		}
		for i, cl := range c.Rotated() {
			id := start(fmt.Sprintf("m-talk-%d-%d", round, i), "talk")
			tails = append(tails, follow(ctx, cl, id), followBare(ctx, t, c, id, i))
		}
		tails = append(tails, follow(ctx, c.Client, start(fmt.Sprintf("m-flood-%d", round), "flood")))
		harness.Until(t, "logs", func() (bool, any) {
			n := len(tails[len(tails)-2].bytes())
			return n > 300, n
		})
		victim := c.TheLeader()
		if round == 1 {
			victim = c.Followers()[0]
		}
		if err := victim.Kill(); err != nil {
			t.Fatal(err)
		}
		harness.Until(t, "a leader", func() (bool, any) { return c.TheLeader() != victim, victim.ID })
		c.Restart(victim)
	}

	for id, plan := range ids {
		c.CheckRun(c.Ended(id))
		switch plan {
		case "talk":
			checkOutput(t, c.Log(id, "stdout"), talkScript)
		case "flood":
			checkOutput(t, c.Log(id, "stdout"), floodScript)
		}
	}
	for _, tl := range tails {
		tl.check(t, c)
	}
	checkWatchers(t, c, watchers)
}

const (
	talkScript  = "seq 100\nsleep 0.4\nseq 100\nsleep 0.4\nseq 100\nsleep 0.4\nseq 100\nsleep 0.4\nseq 100\n"
	floodScript = "seq 10000\nsleep 0.5\nseq 10000\nsleep 0.5\nseq 10000\n" // each more than one batch of the log
)

// watcher collects events.
type watcher struct {
	name string
	mu   sync.Mutex
	all  []*holdfastv1.RunEvent
	done chan error
}

func (w *watcher) see(e *holdfastv1.RunEvent) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all = append(w.all, e)
	return nil
}

func (w *watcher) events() []*holdfastv1.RunEvent {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clip(w.all)
}

// watchAll starts watches with and without the SDK, beginning at each peer, before any run exists.
func watchAll(ctx context.Context, t *testing.T, c *harness.Cluster) []*watcher {
	var all []*watcher
	begin := func(name string, watch func(*watcher) error) {
		w := &watcher{name: name, done: make(chan error, 1)}
		all = append(all, w)
		go func() { w.done <- watch(w) }()
	}
	for i, cl := range c.Rotated() {
		begin(fmt.Sprintf("client from peer %d", i+1), func(w *watcher) error { return cl.WatchRuns(ctx, "", 0, w.see) })
		begin(fmt.Sprintf("bare from peer %d", i+1), func(w *watcher) error { return watchBare(ctx, t, c, i, w) })
	}
	return all
}

// watchBare watches as the SDK does, but simply: after each error it continues at the next peer
// after its last cursor.
func watchBare(ctx context.Context, t *testing.T, c *harness.Cluster, at int, w *watcher) error {
	cursor := uint64(0)
	return overPeers(ctx, t, c, at, func(rpc holdfastv1.RunServiceClient) error {
		stream, err := rpc.WatchRuns(ctx, &holdfastv1.WatchRunsRequest{Cursor: cursor})
		for err == nil {
			var e *holdfastv1.RunEvent
			if e, err = stream.Recv(); err == nil {
				_ = w.see(e)
				cursor = e.GetCursor()
			}
		}
		return err
	})
}

// overPeers makes a call at one peer after the other while it fails with an error of a peer that
// dies or stops.
func overPeers(
	ctx context.Context, t *testing.T, c *harness.Cluster, at int, call func(holdfastv1.RunServiceClient) error,
) error {
	var rpcs []holdfastv1.RunServiceClient
	for _, p := range c.Peers() {
		rpcs = append(rpcs, holdfastv1.NewRunServiceClient(c.Conn(p)))
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for ; ; at++ {
		err := call(rpcs[at%len(rpcs)])
		if err == nil || ctx.Err() != nil {
			return err
		}
		if status.Code(err) != codes.Unavailable && status.Code(err) != codes.Canceled {
			t.Errorf("stream of peer %d: %v", at%len(rpcs)+1, err)
			return err
		}
		<-tick.C
	}
}

func checkWatchers(t *testing.T, c *harness.Cluster, watchers []*watcher) {
	t.Helper()
	// The last event is of a run that is canceled at once.
	c.Register("m-last")
	c.Plan("last", step("wait", &holdfastv1.SshCommand{Script: "sleep 600\n"}))
	last := c.Start("m-last", "last").GetRunId()
	if _, err := c.Client.Runs().CancelRun(t.Context(), &holdfastv1.CancelRunRequest{RunId: last}); err != nil {
		t.Fatal(err)
	}
	c.Ended(last)
	for _, w := range watchers {
		harness.Until(t, w.name+" to see the last event", func() (bool, any) {
			es := w.events()
			if len(es) == 0 {
				return false, 0
			}
			e := es[len(es)-1]
			return e.GetSnapshot().GetRunId() == last && client.Finished(e.GetSnapshot()), len(es)
		})
	}
	// A late watcher began with the current state: compare the events after that.
	begin := uint64(0)
	for _, w := range watchers {
		for i, e := range w.events() {
			if e.GetMessage() == currentState {
				begin = max(begin, e.GetCursor())
				continue
			}
			if before := w.events()[max(i-1, 0)].GetCursor(); i > 0 && e.GetCursor() != before+1 || i == 0 &&
				e.GetCursor() != 1 {
				t.Fatalf("%s: event %d: got cursor %d after %d, want consecutive ones from 1", w.name, i+1, e.GetCursor(),
					before)
			}
		}
	}
	first := words(watchers[0].events(), begin)
	for _, w := range watchers {
		if diff := cmp.Diff(first, words(w.events(), begin)); diff != "" {
			t.Errorf("events of %s and %s differ:\n%s", watchers[0].name, w.name, diff)
		}
	}
	checkTransitions(t, watchers[0].events())
	t.Logf("%d watchers with %d events each", len(watchers), len(first))
}

const currentState = "current state" // the message of the first events of a watch

// words returns the parts of the events after a cursor that must be equal at all peers.
func words(es []*holdfastv1.RunEvent, after uint64) []string {
	var all []string
	for _, e := range es {
		s := e.GetSnapshot()
		if e.GetCursor() <= after {
			continue
		}
		all = append(all, fmt.Sprintf("%d %d %s %s %s: %s", e.GetCursor(), e.GetIndex(), s.GetRunId(), s.GetPhase(),
			s.GetCurrentStep(), e.GetMessage()))
	}
	return all
}

// checkTransitions checks that runs and steps only move forward (docs/reliability.md).
func checkTransitions(t *testing.T, es []*holdfastv1.RunEvent) {
	t.Helper()
	last := map[string]*holdfastv1.Run{}
	for _, e := range es {
		run, before := e.GetSnapshot(), last[e.GetSnapshot().GetRunId()]
		if client.Finished(before) {
			t.Errorf("run %s: got an event after %s: %s", run.GetRunId(), before.GetPhase(), e.GetMessage())
		}
		if before.GetPhase() > run.GetPhase() {
			t.Errorf("run %s: got transition %s to %s", run.GetRunId(), before.GetPhase(), run.GetPhase())
		}
		for i, s := range before.GetSteps() {
			if now := run.GetSteps()[i]; s.GetState() > now.GetState() || len(s.GetAttempts()) > len(now.GetAttempts()) {
				t.Errorf("step %s of run %s: got transition %s to %s", s.GetName(), run.GetRunId(), s.GetState(), now.GetState())
			}
		}
		last[run.GetRunId()] = run
	}
}
