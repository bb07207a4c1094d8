package transport

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/raft"
)

// largeRequest returns a request with entries of these sizes in KiB, from index 11.
func largeRequest(kib ...int) *raft.AppendEntriesRequest {
	req := &raft.AppendEntriesRequest{RPCHeader: header(), Term: 7, PrevLogEntry: 10, PrevLogTerm: 6, LeaderCommitIndex: 9}
	for i, n := range kib {
		req.Entries = append(req.Entries, &raft.Log{Index: 11 + uint64(i), Term: 7, Data: make([]byte, n<<10)})
	}
	return req
}

func TestSplit(t *testing.T) {
	for _, tt := range []struct {
		name string
		kib  []int
		want [][2]uint64 // previous index and number of entries of each part
	}{
		{"no entries", nil, [][2]uint64{{10, 0}}},
		{"all fit", []int{100, 200, 300}, [][2]uint64{{10, 3}}},
		{"too many", []int{500, 500, 500, 500}, [][2]uint64{{10, 2}, {12, 2}}},
		{"too large", []int{2000}, [][2]uint64{{10, 1}}},
		{"too large between others", []int{1, 2000, 1, 1}, [][2]uint64{{10, 1}, {11, 1}, {12, 2}}},
	} {
		var got [][2]uint64
		for i, p := range split(largeRequest(tt.kib...)) {
			got = append(got, [2]uint64{p.PrevLogEntry, uint64(len(p.Entries))})
			if want := map[bool]uint64{true: 6, false: 7}[i == 0]; p.PrevLogTerm != want || p.Term != 7 ||
				p.LeaderCommitIndex != 9 {
				t.Errorf("%s: part %d: got %+v, want the previous term %d and the rest unchanged", tt.name, i, p, want)
			}
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s: parts (-want +got):\n%s", tt.name, diff)
		}
	}
}

// TestLargeRequestsArriveInParts checks that a peer behind a slow link progresses with each part,
// with both ways of sending.
func TestLargeRequestsArriveInParts(t *testing.T) {
	here, there := testGate(t), testGate(t)
	sizes := make(chan int, 100)
	go func() { // ends with the test
		for {
			select {
			case rpc := <-there.Consumer():
				req := rpc.Command.(*raft.AppendEntriesRequest)
				sizes <- len(req.Entries)
				rpc.Respond(&raft.AppendEntriesResponse{RPCHeader: header(), Term: 7, Success: true, LastLog: req.PrevLogEntry +
					uint64(len(req.Entries))}, nil)
			case <-there.stop:
				return
			}
		}
	}()
	want := []int{3, 3, 3, 1}
	req := largeRequest(300, 300, 300, 300, 300, 300, 300, 300, 300, 300)
	received := func(how string) {
		t.Helper()
		var got []int
		for range want {
			select {
			case n := <-sizes:
				got = append(got, n)
			case <-time.After(10 * time.Second):
				t.Fatalf("%s: got parts of %v entries, want %v", how, got, want)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: entries of the parts (-want +got):\n%s", how, diff)
		}
	}
	var resp raft.AppendEntriesResponse
	if err := here.AppendEntries("p2", there.LocalAddr(), req, &resp); err != nil || resp.LastLog != 20 {
		t.Errorf("got %+v, %v, want the answer to the last part", resp, err)
	}
	received("a call")
	p, err := here.AppendEntriesPipeline("p2", there.LocalAddr())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = p.Close() }()
	last, err := p.AppendEntries(req, &raft.AppendEntriesResponse{})
	if err != nil {
		t.Fatal(err)
	}
	received("a pipeline")
	if err := last.Error(); err != nil || last.Response().LastLog != 20 {
		t.Errorf("got %+v, %v, want the answer to the last part", last.Response(), err)
	}
	for _, n := range want { // Raft counts the entries that each future acknowledges
		if f := <-p.Consumer(); len(f.Request().Entries) != n {
			t.Errorf("got a future of %d entries, want %d", len(f.Request().Entries), n)
		}
	}
}

// TestCompactedRequestsFail checks that a call fails once the log no longer has its entries. The
// peer then needs a snapshot, which Raft sends when the call fails.
func TestCompactedRequestsFail(t *testing.T) {
	here, there := testGate(t), testGate(t)
	addr := there.LocalAddr()
	_ = there.Close()
	leads(here)
	at := uint64(11)
	attach(here, func(l *Local) {
		l.FirstIndex = func() (uint64, error) {
			at++ // the index advances as snapshots are taken
			return at - 1, nil
		}
	})
	done := make(chan error, 1)
	go func() { done <- here.AppendEntries("p2", addr, largeRequest(1), &raft.AppendEntriesResponse{}) }()
	select {
	case err := <-done:
		if err == nil {
			t.Error("call without a peer: got no error")
		}
	case <-time.After(20 * time.Second):
		t.Error("call for compacted entries: timed out")
	}
}
