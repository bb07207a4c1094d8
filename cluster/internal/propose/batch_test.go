package propose

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/raft"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/cluster/outcome"
	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// fakeLog commits an entry for each value in commit.
type fakeLog struct {
	mu      sync.Mutex
	entries []*internalv1.Entry
	commit  chan error // one value per entry; if closed, all succeed
}

type fakeFuture struct {
	raft.ApplyFuture
	log      *fakeLog
	commands []*internalv1.Command
}

func (f *fakeFuture) Error() error  { return <-f.log.commit }
func (f *fakeFuture) Index() uint64 { return 7 }
func (f *fakeFuture) Response() any {
	var rs []fsm.Result
	for _, c := range f.commands {
		r := fsm.Result{Index: 7}
		if strings.HasPrefix(c.GetPrincipal(), "refuse") {
			r.Err = &fsm.Error{Message: c.GetPrincipal()}
		}
		rs = append(rs, r)
	}
	return rs
}

func (l *fakeLog) Apply(data []byte, _ time.Duration) raft.ApplyFuture {
	e := &internalv1.Entry{}
	if err := proto.Unmarshal(data, e); err != nil {
		panic(err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries = append(l.entries, e)
	return &fakeFuture{log: l, commands: e.GetCommands()}
}

func (l *fakeLog) sizes() []int {
	l.mu.Lock()
	defer l.mu.Unlock()
	var n []int
	for _, e := range l.entries {
		n = append(n, len(e.GetCommands()))
	}
	return n
}

func command(t *testing.T, principal string) []byte {
	t.Helper()
	data, err := proto.Marshal(&internalv1.Command{FeatureLevel: 1, Principal: principal,
		Op: &internalv1.Command_NoOp{NoOp: &internalv1.NoOp{}}})
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func startBatcher(t *testing.T, l *fakeLog, ready func() error) *batcher {
	b := newBatcher(l, ready, func(int) {})
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for range entriesInFlight {
		wg.Go(func() { b.run(ctx) })
	}
	t.Cleanup(func() { cancel(); wg.Wait() })
	return b
}

func alwaysReady() error { return nil }

func TestCommandsShareEntryWhileOthersAreInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &fakeLog{commit: make(chan error)}
		b := startBatcher(t, l, alwaysReady)
		var ps []*proposal
		add := func(n int) {
			for range n {
				ps = append(ps, b.add(command(t, fmt.Sprint(len(ps)))))
			}
			synctest.Wait()
		}
		add(1)
		if diff := cmp.Diff([]int{1}, l.sizes()); diff != "" {
			t.Fatalf("entries of a single command (-want +got):\n%s", diff)
		}
		add(1)
		add(maxBatch + 5)
		if diff := cmp.Diff([]int{1, 1}, l.sizes()); diff != "" {
			t.Fatalf("entries in flight (-want +got):\n%s", diff)
		}
		close(l.commit)
		synctest.Wait()
		if diff := cmp.Diff([]int{1, 1, maxBatch, 5}, l.sizes()); diff != "" {
			t.Errorf("entries (-want +got):\n%s", diff)
		}
		for i, p := range ps {
			select {
			case a := <-p.done:
				if a.err != nil || a.result.Index != 7 {
					t.Errorf("command %d: got %v, %v", i, a.result, a.err)
				}
			default:
				t.Errorf("command %d: got no answer", i)
			}
		}
		var got []string
		for _, e := range l.entries {
			for _, c := range e.GetCommands() {
				got = append(got, c.GetPrincipal())
			}
		}
		for i, p := range got {
			if p != fmt.Sprint(i) {
				t.Fatalf("command %d: got %s, want the original order", i, p)
			}
		}
	})
}

func TestEntriesStaySmall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &fakeLog{commit: make(chan error)}
		b := startBatcher(t, l, alwaysReady)
		b.add(command(t, "a"))
		synctest.Wait()
		b.add(command(t, "b"))
		synctest.Wait()
		for range 5 {
			b.add(command(t, strings.Repeat("x", maxEntry/2-100)))
		}
		close(l.commit)
		synctest.Wait()
		if diff := cmp.Diff([]int{1, 1, 2, 2, 1}, l.sizes()); diff != "" {
			t.Errorf("entries (-want +got):\n%s", diff)
		}
	})
}

func TestResultsGoToTheirCommands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &fakeLog{commit: make(chan error)}
		b := startBatcher(t, l, alwaysReady)
		b.add(command(t, "first"))
		b.add(command(t, "second"))
		synctest.Wait()
		good, bad := b.add(command(t, "good")), b.add(command(t, "refuse it"))
		close(l.commit)
		if a := <-good.done; a.err != nil || a.result.Err != nil {
			t.Errorf("good: got %v, %v", a.result, a.err)
		}
		if a := <-bad.done; a.err != nil || a.result.Err == nil || a.result.Err.Message != "refuse it" {
			t.Errorf("refused: got %v, %v", a.result, a.err)
		}
	})
}

func TestFailuresHaveOutcomes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &fakeLog{commit: make(chan error, 1)}
		err := errors.New("not now")
		b := startBatcher(t, l, func() error { return err })
		if a := <-b.add(command(t, "a")).done; a.err == nil || a.err.Outcome != outcome.NotApplied || !errors.Is(a.err, err) {
			t.Errorf("not ready: got %v", a.err)
		}
		if got := len(l.sizes()); got != 0 {
			t.Errorf("not ready: got %d proposed entries, want 0", got)
		}
		b.ready = alwaysReady
		l.commit <- raft.ErrLeadershipLost
		if a := <-b.add(command(t, "a")).done; a.err == nil || a.err.Outcome != outcome.Unknown {
			t.Errorf("leadership lost: got %v", a.err)
		}
		l.commit <- raft.ErrNotLeader
		if a := <-b.add(command(t, "a")).done; a.err == nil || a.err.Outcome != outcome.NotApplied {
			t.Errorf("not leader: got %v", a.err)
		}
	})
}

func TestAbandonedCommandsAreNotProposed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &fakeLog{commit: make(chan error)}
		b := startBatcher(t, l, alwaysReady)
		for _, p := range []string{"a", "b"} { // in turn, because together they would share an entry
			b.add(command(t, p))
			synctest.Wait()
		}
		gone, stays := b.add(command(t, "gone")), b.add(command(t, "stays"))
		if !gone.state.CompareAndSwap(queued, abandoned) {
			t.Fatal("abandon a queued command: got taken")
		}
		close(l.commit)
		<-stays.done
		for _, e := range l.entries {
			for _, c := range e.GetCommands() {
				if c.GetPrincipal() == "gone" {
					t.Error("got a proposal of a command reported as not applied")
				}
			}
		}
	})
}
