package bmc

import (
	"context"
	"errors"
	"testing"
)

// slowMemory is a memory whose saves wait until they are released, or their context ends.
type slowMemory struct {
	*InMemory
	saving, release chan struct{}
}

func (m slowMemory) Remember(ctx context.Context, name string, memo Memo) error {
	m.saving <- struct{}{}
	select {
	case <-m.release:
	case <-ctx.Done():
	}
	return m.InMemory.Remember(ctx, name, memo)
}

// States of a BMC are stored one after the other: an older one never replaces a newer one.
func TestOrderOfMemos(t *testing.T) {
	t.Parallel()
	mem := slowMemory{NewInMemory(), make(chan struct{}, 4), make(chan struct{}, 1)}
	c := &controller{p: &Provider{memory: mem}, key: "b", saving: make(chan struct{}, 1), loaded: true,
		memo: Memo{Session: "/s/1"}}
	first := make(chan error)
	go func() { first <- c.flush(t.Context()) }()
	<-mem.saving
	c.state.Lock()
	c.memo.Session = "/s/2"
	c.state.Unlock()
	ended, end := context.WithCancel(t.Context())
	end()
	mem.release <- struct{}{}
	for i, err := range []error{<-first, c.flush(ended)} { // nothing is saved now: it need not wait
		if err != nil {
			t.Errorf("save %d: %v", i+1, err)
		}
	}
	if got, _ := mem.Recall(t.Context(), "b"); got.Session != "/s/2" {
		t.Errorf("got session %s, want the last one", got.Session)
	}
	c.memo.Session = "/s/3"
	go func() { first <- c.flush(t.Context()) }()
	<-mem.saving // of the second save
	<-mem.saving
	if err := c.flush(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("a save during another one: got %v, want it to wait until its context ends", err)
	}
	mem.release <- struct{}{}
	if err := <-first; err != nil {
		t.Error(err)
	}
}
