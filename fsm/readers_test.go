package fsm

import (
	"testing"
	"time"
)

// A reader does not wait for an Apply in progress if another reader has read since the
// previous one. Waiting for a change does not block either.
func TestReadersDoNotWaitForApply(t *testing.T) {
	f := New()
	f.View()
	for i := range uint64(3) {
		f.Observe(i+1, 1)
		f.mu.Lock() // as Apply does
		read := make(chan uint64, 1)
		go func() {
			f.Changed()
			read <- f.View().Index()
		}()
		select {
		case got := <-read:
			if got != i+1 {
				t.Errorf("a View while entry %d is applied goes to %d, want %d", i+2, got, i+1)
			}
		case <-time.After(10 * time.Second):
			t.Error("a reader waits for an Apply")
		}
		f.mu.Unlock()
	}
	f.Observe(4, 1)
	f.Observe(5, 1)
	if f.view.Load() != nil {
		t.Error("there is a View though nobody has asked for the one before it: it keeps what is old alive")
	}
}

// A View shares unchanged tables with the previous one, and writable copies share none.
func TestViewsShareUnchangedParts(t *testing.T) {
	f := New()
	was := f.View().state
	f.Observe(1, 1)
	now := f.View().state
	if now.Machines != was.Machines || now.Webhooks != was.Webhooks {
		t.Error("tables that have not changed were copied")
	}
	if c := f.state.Copy(); c.Machines == now.Machines || c.Machines == f.state.Machines {
		t.Error("a copy that may be written to is shared")
	}
}
