package history

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-metal/holdfast/cluster"
	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/fsm/fsmtest"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/server/ui/history/series"
)

// leaders is a cluster with the given leaders one after the other, and then always the last.
type leaders struct {
	all  []func() (string, *holdfastv1.PeerLoad, error)
	late error // of Votes
}

func (l *leaders) LeaderLoad(context.Context) (string, *holdfastv1.PeerLoad, error) {
	f := l.all[0]
	if len(l.all) > 1 {
		l.all = l.all[1:]
	}
	return f()
}

func (l *leaders) Votes() error { return l.late }

// says returns a leader that has committed n commands, all of them in the given bucket, and
// has had as many errors of BMCs of one provider.
func says(id string, n uint64, place int) func() (string, *holdfastv1.PeerLoad, error) {
	return func() (string, *holdfastv1.PeerLoad, error) {
		l := &holdfastv1.PeerLoad{Leases: 30, LeaseRate: 3, Commands: n,
			Commits: make([]uint64, cluster.CommitBounds+1),
			Bmc:     []*holdfastv1.ProviderCalls{{Provider: "site", Calls: 2 * n, Failed: n}}}
		l.Commits[place] = n
		return id, l, nil
	}
}

func noLeader() (string, *holdfastv1.PeerLoad, error) { return "", nil, errors.New("no leader") }

// newPeer returns a peer whose time is that of the test.
func newPeer() *fsmtest.Peer {
	p := &fsmtest.Peer{FSM: fsm.New(), Now: time.Now().Add(-time.Minute)}
	p.Lead(1)
	for _, plan := range fsm.DefaultPlans() {
		p.Do(&internalv1.CreatePlan{Plan: plan, BuiltIn: true})
	}
	return p
}

// begin runs a history until the test ends.
func begin(t *testing.T, cfg Config, c Cluster, s State) *History {
	t.Helper()
	h := New(cfg, c, s)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- h.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	synctest.Wait()
	return h
}

// newest formats the n newest points, "?" for unknown ones.
func newest(l Line, n int) []string {
	var all []string
	for _, p := range l.Points[len(l.Points)-n:] {
		text := "?"
		if p.Periods > 0 {
			text = fmt.Sprint(math.Round(p.Value*1e7) / 1e7)
		}
		all = append(all, text)
	}
	return all
}

// TestLoad: rates are between two samples of the same leader without a restart. A missing
// leader is a gap, and changes of the leader are kept.
func TestLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old := func() (string, *holdfastv1.PeerLoad, error) { return "n3", nil, nil }
		c := &leaders{all: []func() (string, *holdfastv1.PeerLoad, error){says("n1", 100, 0), says("n1", 150, 0),
			says("n1", 150, 0), noLeader, says("n2", 900, 2), says("n2", 5, 2), says("n2", 25, 2), old}}
		h := begin(t, Config{}, c, newPeer())
		time.Sleep(75 * time.Second) // sleep: fake clock
		w := h.Window(RangeOf("1h"))
		for name, tt := range map[string]struct {
			line Line
			want []string
		}{
			"heartbeats":        {w.Heartbeats, []string{"3", "3", "3", "?", "3", "3", "3", "0"}},
			"commands":          {w.Commands, []string{"?", "5", "0", "?", "?", "?", "2", "?"}},
			"p50":               {w.P50, []string{"?", "5e-05", "?", "?", "?", "?", "0.000175", "?"}},
			"p99":               {w.P99, []string{"?", "0.0001", "?", "?", "?", "?", "0.0002", "?"}},
			"errors, by minute": {w.BMCErrors[0], []string{"50", "20"}},
		} {
			if diff := cmp.Diff(tt.want, newest(tt.line, len(tt.want))); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
		}
		var got []string
		for _, l := range w.Leaders {
			got = append(got, fmt.Sprint(l.ID, " ", w.To.Sub(l.At).Round(time.Second)))
		}
		if diff := cmp.Diff([]string{"n1 1m15s", "n2 35s", "n3 5s"}, got); diff != "" {
			t.Errorf("leaders (-want +got):\n%s", diff)
		}
		if h.Taken() != 8 {
			t.Errorf("got %d samples, want 8", h.Taken())
		}
	})
}

// TestState: machines are counted from each sample on. Runs belong to the time of their end,
// also those that ended before this peer has started, and none is counted twice.
func TestState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeer()
		p.Do(&internalv1.RegisterMachine{Machine: &holdfastv1.Machine{MachineId: "m-1"}})
		p.Do(&internalv1.RegisterMachine{Machine: &holdfastv1.Machine{MachineId: "m-2"}})
		run := func(id string, end func(id string) fsm.Result) {
			p.Now = time.Now()
			p.Do(&internalv1.StartRun{RunId: id, MachineId: "m-1", RequestId: id, PlanId: "plan/inspect",
				DefaultTimeoutSeconds: 60})
			if r := end(id); r.Err != nil {
				t.Fatal(r.Err)
			}
		}
		cancel := func(id string) fsm.Result { return p.Do(&internalv1.CancelRun{RunId: id}) }
		fail := func(id string) fsm.Result {
			return p.Do(&internalv1.AbortRun{RunId: id, Phase: holdfastv1.Run_FAILED,
				Error: &holdfastv1.RunError{Message: "the plan is gone"}})
		}
		run("run-1", fail)
		time.Sleep(3 * time.Minute) // sleep: fake clock
		run("run-2", cancel)
		run("run-3", cancel)
		time.Sleep(time.Minute) // sleep: fake clock
		h := begin(t, Config{}, &leaders{all: []func() (string, *holdfastv1.PeerLoad, error){noLeader}}, p)
		time.Sleep(65 * time.Second) // sleep: fake clock
		p.Now = time.Now()
		p.Do(&internalv1.SetMachinePhase{MachineId: "m-2", Phase: holdfastv1.MachineStatus_MAINTENANCE})
		run("run-4", fail)
		time.Sleep(10 * time.Second) // sleep: fake clock
		synctest.Wait()
		w := h.Window(RangeOf("1h"))
		for name, tt := range map[string]struct {
			line Line
			want []string
		}{
			"ready":       {w.Machines[1], []string{"?", "2", "2", "2", "2", "2", "2", "2", "1"}},
			"maintenance": {w.Machines[4], []string{"?", "0", "0", "0", "0", "0", "0", "0", "1"}},
			"succeeded":   {w.Runs[0], []string{"?", "0", "0", "0", "0", "0", "0"}},
			"failed":      {w.Runs[1], []string{"?", "1", "0", "0", "0", "0", "1"}},
			"canceled":    {w.Runs[2], []string{"?", "0", "0", "0", "2", "0", "0"}},
		} {
			if diff := cmp.Diff(tt.want, newest(tt.line, len(tt.want))); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
		}
	})
}

// TestCatchingUp: a peer that still applies its log has an old state, which is not sampled.
func TestCatchingUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := begin(t, Config{}, &leaders{all: []func() (string, *holdfastv1.PeerLoad, error){noLeader},
			late: errors.New("10 of 20 log entries applied")}, newPeer())
		for _, l := range h.Window(RangeOf("1h")).Machines {
			if got := newest(l, 1)[0]; got != "?" {
				t.Errorf("machines %s: got %s, want none", l.Name, got)
			}
		}
	})
}

// TestMemory: two weeks of everything, with more providers than have a series, take 2 MiB.
func TestMemory(t *testing.T) {
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	h := New(Config{}, nil, newPeer())
	h.states.take(t.Context())
	at := h.start
	for i := range uint64(300) {
		load := func(n uint64) *holdfastv1.PeerLoad {
			l := &holdfastv1.PeerLoad{Commands: n, Commits: []uint64{n}}
			for p := range 40 {
				l.Bmc = append(l.Bmc, &holdfastv1.ProviderCalls{Provider: fmt.Sprintf("site-%02d", p), Failed: n})
			}
			return l
		}
		was := answer{at, fmt.Sprint("n", i), load(i)}
		at = at.Add(10 * time.Minute)
		now := answer{at, was.leader, load(i + 1)}
		h.noteLeader(now)
		h.addRates(was, now)
	}
	if got := int64(heap()) - int64(before); got > 2<<20 {
		t.Errorf("got a heap of %d bytes, want at most 2 MiB", got)
	}
	w := h.Window(RangeOf("14d"))
	if len(w.BMCErrors) != maxProviders+1 {
		t.Errorf("got %d lines of providers, want %d", len(w.BMCErrors), maxProviders+1)
	}
	if len(h.leaders) > maxLeaders {
		t.Errorf("got %d changes of the leader, want at most %d", len(h.leaders), maxLeaders)
	}
	runtime.KeepAlive(h)
}

// TestRanges: the points of each range cover it, end now and have the length of their step.
func TestRanges(t *testing.T) {
	h := New(Config{}, nil, newPeer())
	h.fixed.Add(heartbeats, series.Mean, h.now(), 3)
	for _, r := range Ranges() {
		w := h.Window(r)
		for _, l := range append(w.Machines, append(w.Runs, w.Heartbeats)...) {
			end := l.From.Add(time.Duration(len(l.Points)) * l.Step)
			if l.From.After(w.From.Add(l.Step)) || !end.After(w.To) || end.After(w.To.Add(l.Step)) {
				t.Errorf("%s: %s has points from %v to %v, want from %v to %v", r.Name, l.Name, l.From, end, w.From, w.To)
			}
		}
		if got := newest(w.Heartbeats, 1)[0]; got != "3" {
			t.Errorf("%s: got %s heartbeats/s now, want 3", r.Name, got)
		}
		if RangeOf(r.Name).Name != r.Name {
			t.Errorf("range %s: got %s", r.Name, RangeOf(r.Name).Name)
		}
	}
	if got := RangeOf("nonsense").Name; got != "1h" {
		t.Errorf("unknown range: got %s, want 1h", got)
	}
}
