package transport

import (
	"log/slog"
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

// noAddrs knows no peer, so calls use the address that is passed.
type noAddrs struct{}

func (noAddrs) ServerAddr(raft.ServerID) (raft.ServerAddress, error) { return "", ErrNotAdmitted }

func mustListen() *Stream {
	s, err := Listen(StreamConfig{Addr: "127.0.0.1:0", Logger: discard()})
	if err != nil {
		panic(err)
	}
	return s
}

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

func testGate(t *testing.T) *Gate {
	t.Helper()
	g := NewGate(mustListen(), Guard{}, noAddrs{}, discard())
	t.Cleanup(func() { _ = g.Close() })
	g.admitted.Store(true)
	return g
}

// A follower with a newer term refuses entries. Raft stops reading answers at the first refusal,
// but may continue to send. If the sender then blocks, replication to the follower stops forever
// and Raft does not shut down.
func TestPipelineReadsUnclaimedAnswers(t *testing.T) {
	here, there := testGate(t), testGate(t)
	go func() { // ends with the test
		for {
			select {
			case rpc := <-there.Consumer():
				rpc.Respond(&raft.AppendEntriesResponse{RPCHeader: header(), Term: 9}, nil)
			case <-there.stop:
				return
			}
		}
	}()
	p, err := here.AppendEntriesPipeline("p2", there.LocalAddr())
	if err != nil {
		t.Fatal(err)
	}
	sent := make(chan error, 1)
	const entries = 5
	go func() { // ends with the pipeline at the latest
		var err error
		for i := 0; i < entries && err == nil; i++ {
			_, err = p.AppendEntries(&raft.AppendEntriesRequest{RPCHeader: header(), Term: 1, LeaderCommitIndex: 1},
				&raft.AppendEntriesResponse{})
		}
		sent <- err
	}()
	select {
	case err := <-sent:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("send entries: timed out, because answers are not read")
	}
	for i := range entries {
		select {
		case f := <-p.Consumer():
			if f.Response().Success {
				t.Errorf("answer %d: got success, want a refusal", i)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("wait for answer %d: timed out", i)
		}
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}
