package transport

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/hashicorp/raft"
)

// slowDisk is a log of which a part is on disk.
type slowDisk struct {
	mu      sync.Mutex
	index   uint64
	written chan struct{}
	asked   chan uint64 // each index that was asked for, and is not on disk
}

func newSlowDisk() *slowDisk {
	return &slowDisk{written: make(chan struct{}), asked: make(chan uint64, 100)}
}

func (d *slowDisk) synced(index uint64) (bool, <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if index > d.index {
		d.asked <- index
		return false, d.written
	}
	return true, nil
}

func (d *slowDisk) write(through uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.index = through
	close(d.written)
	d.written = make(chan struct{})
}

func (d *slowDisk) attach(to *Gate) { attach(to, func(l *Local) { l.Synced = d.synced }) }

// TestPipelineHoldsAnswers checks that Raft gets the answer of a follower only when this peer has
// the entries on disk, too.
func TestPipelineHoldsAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow, w := newSlowDisk(), newWire()
		p := newPipeline("p2", w, newCommits(), slow.synced)
		defer closePipeline(t, p)
		got := 0
		take := func() int {
			synctest.Wait()
			for {
				select {
				case <-p.Consumer():
					got++
					synctest.Wait()
				default:
					return got
				}
			}
		}
		mustSend(t, p, request(7, 1, 3, 0))
		mustSend(t, p, request(7, 4, 5, 0))
		w.answer(0, true)
		w.answer(1, true)
		for _, step := range []struct {
			through uint64
			want    int
		}{{0, 0}, {2, 0}, {3, 1}, {4, 1}, {5, 2}} {
			slow.write(step.through)
			if n := take(); n != step.want {
				t.Errorf("with %d entries on disk: got %d answers, want %d", step.through, n, step.want)
			}
		}
	})
}

// TestCallHoldsAnswers checks the same for a call without a pipeline, which must also end when the
// peer stops.
func TestCallHoldsAnswers(t *testing.T) {
	for _, tt := range []struct {
		name string
		end  func(g *Gate, d *slowDisk, deposed func())
		want error
	}{
		{"written", func(_ *Gate, d *slowDisk, _ func()) { d.write(3) }, nil},
		{"stopping", func(g *Gate, _ *slowDisk, _ func()) { g.HangUp() }, errHungUp},
		{"deposed", func(_ *Gate, _ *slowDisk, deposed func()) { deposed() }, errNotServed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			here, there, slow := testGate(t), testGate(t), newSlowDisk()
			slow.attach(here)
			deposed := leads(here)
			go func() { // ends with the test
				select {
				case rpc := <-there.Consumer():
					rpc.Respond(&raft.AppendEntriesResponse{RPCHeader: header(), Term: 7, Success: true}, nil)
				case <-there.stop:
				}
			}()
			done := make(chan error, 1)
			go func() {
				done <- here.AppendEntries("p2", there.LocalAddr(), request(7, 1, 3, 0), new(raft.AppendEntriesResponse))
			}()
			for _, through := range []uint64{1, 2} {
				select {
				case <-slow.asked:
				case err := <-done:
					t.Fatalf("got an answer (error %v) before the entries are on disk", err)
				}
				slow.write(through)
			}
			tt.end(here, slow, deposed)
			if err := <-done; !errors.Is(err, tt.want) {
				t.Errorf("got %v, want %v", err, tt.want)
			}
		})
	}
}

// TestEntriesWaitForOlderOnes checks that a peer that has lost the leadership writes its own
// entries before it gets them again from the new leader.
func TestEntriesWaitForOlderOnes(t *testing.T) {
	here, there, slow := testGate(t), testGate(t), newSlowDisk()
	slow.attach(there)
	done := make(chan error, 2)
	send := func(req *raft.AppendEntriesRequest) {
		done <- here.NetworkTransport.AppendEntries("p2", there.LocalAddr(), req, new(raft.AppendEntriesResponse))
	}
	answer := func(rpc raft.RPC) {
		rpc.Respond(&raft.AppendEntriesResponse{RPCHeader: header(), Term: 7, Success: true}, nil)
	}
	go send(&raft.AppendEntriesRequest{RPCHeader: header(), Term: 7, PrevLogEntry: 9, PrevLogTerm: 6})
	answer(<-there.Consumer()) // nothing to acknowledge
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	go send(request(7, 8, 9, 0))
	for _, through := range []uint64{8, 9} {
		select {
		case <-slow.asked:
		case <-there.Consumer():
			t.Fatal("got entries before they are on disk")
		}
		slow.write(through)
	}
	answer(<-there.Consumer())
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// TestEntriesAreDroppedWithTheDisk checks that Raft never gets entries that it would acknowledge
// although the peer stops before they are on disk.
func TestEntriesAreDroppedWithTheDisk(t *testing.T) {
	here, there, slow := testGate(t), testGate(t), newSlowDisk()
	slow.attach(there)
	done := make(chan error, 1)
	go func() {
		done <- here.NetworkTransport.AppendEntries("p2", there.LocalAddr(), request(7, 8, 9, 0),
			new(raft.AppendEntriesResponse))
	}()
	<-slow.asked
	there.hangUp.Do(func() { close(there.hungUp) }) // HangUp closes the connections a moment later
	select {
	case <-there.Consumer():
		t.Fatal("got entries that are not on disk")
	case err := <-done:
		if err == nil {
			t.Error("got an acknowledgement, want an error")
		}
	}
}

// TestRefusalsAreNotHeld checks that Raft learns at once that a follower refuses it, even if its
// disk hangs.
func TestRefusalsAreNotHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow, w := newSlowDisk(), newWire()
		p := newPipeline("p2", w, newCommits(), slow.synced)
		defer closePipeline(t, p)
		mustSend(t, p, request(7, 1, 3, 0))
		w.answer(0, false)
		synctest.Wait()
		select {
		case <-p.Consumer():
		default:
			t.Error("got no answer, want the refusal")
		}
	})
}
