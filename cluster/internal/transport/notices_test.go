package transport

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/raft"
)

// wire is a pipeline of the library. It records the requests; the test answers them.
type wire struct {
	sent    []*raft.AppendEntriesRequest
	answers chan raft.AppendFuture
	full    bool // requests block, as when too many are unanswered
	closed  chan struct{}
}

// reply is the answer to a request.
type reply struct {
	req  *raft.AppendEntriesRequest
	resp *raft.AppendEntriesResponse
}

func (r reply) Error() error                          { return nil }
func (r reply) Start() time.Time                      { return time.Time{} }
func (r reply) Request() *raft.AppendEntriesRequest   { return r.req }
func (r reply) Response() *raft.AppendEntriesResponse { return r.resp }

func newWire() *wire {
	return &wire{answers: make(chan raft.AppendFuture), closed: make(chan struct{})}
}

// AppendEntries implements raft.AppendPipeline.
func (w *wire) AppendEntries(
	req *raft.AppendEntriesRequest,
	resp *raft.AppendEntriesResponse,
) (raft.AppendFuture, error) {
	w.sent = append(w.sent, req)
	if w.full {
		<-w.closed
		return nil, raft.ErrPipelineShutdown
	}
	return reply{req, resp}, nil
}

// Consumer implements raft.AppendPipeline.
func (w *wire) Consumer() <-chan raft.AppendFuture { return w.answers }

// Close implements raft.AppendPipeline.
func (w *wire) Close() error { close(w.closed); return nil }

// answer answers request i.
func (w *wire) answer(i int, success bool) {
	w.answers <- reply{w.sent[i], &raft.AppendEntriesResponse{Success: success}}
}

func fromLeader() raft.RPCHeader {
	h := header()
	h.ID, h.Addr = []byte("p1"), []byte("127.0.0.1:1")
	return h
}

// request returns a request of that term with entries of the term from index first through last.
func request(term, first, last, commit uint64) *raft.AppendEntriesRequest {
	req := &raft.AppendEntriesRequest{
		RPCHeader: fromLeader(), Term: term, LeaderCommitIndex: commit,
		PrevLogEntry: first - 1, PrevLogTerm: term - 1,
	}
	for i := first; i <= last; i++ {
		req.Entries = append(req.Entries, &raft.Log{Index: i, Term: term})
	}
	return req
}

// note returns the notice that a term's leader sends after the entry prev of a term.
func note(term, prev, prevTerm, commit uint64) *raft.AppendEntriesRequest {
	return &raft.AppendEntriesRequest{
		RPCHeader: fromLeader(), Term: term, LeaderCommitIndex: commit,
		PrevLogEntry: prev, PrevLogTerm: prevTerm,
	}
}

func mustSend(t *testing.T, p *pipeline, req *raft.AppendEntriesRequest) {
	t.Helper()
	if _, err := p.AppendEntries(req, &raft.AppendEntriesResponse{}); err != nil {
		t.Fatal(err)
	}
}

func closePipeline(t *testing.T, p *pipeline) {
	t.Helper()
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

func TestNotices(t *testing.T) {
	for _, tt := range []struct {
		name        string
		matched     *raft.AppendEntriesRequest // accepted before the pipeline was opened
		early       bool                       // the entry is committed before the pipeline is opened
		sent        *raft.AppendEntriesRequest
		index, term uint64 // of the committed entry
		want        *raft.AppendEntriesRequest
	}{
		{name: "all that was sent", sent: request(7, 11, 13, 10), index: 13, term: 7, want: note(7, 13, 7, 13)},
		{name: "a part", sent: request(7, 11, 13, 10), index: 12, term: 7, want: note(7, 13, 7, 12)},
		{name: "more than was sent", sent: request(7, 11, 13, 10), index: 15, term: 7, want: note(7, 13, 7, 13)},
		{name: "after a request without entries", sent: request(7, 11, 10, 9), index: 10, term: 7,
			want: note(7, 10, 6, 10)},
		{name: "known", sent: request(7, 11, 13, 13), index: 13, term: 7},
		{name: "known, and more than was sent", sent: request(7, 11, 13, 15), index: 15, term: 7},
		{name: "of an older term", sent: request(7, 11, 13, 10), index: 13, term: 6},
		{name: "of a newer term", sent: request(7, 11, 13, 10), index: 13, term: 8},
		{name: "before anything was sent", index: 13, term: 7},
		{name: "sent before the pipeline", matched: request(7, 11, 13, 10), index: 13, term: 7,
			want: note(7, 13, 7, 13)},
		{name: "committed before the pipeline", matched: request(7, 11, 13, 10), early: true, index: 13, term: 7,
			want: note(7, 13, 7, 13)},
		{name: "sent by an older term before the pipeline", matched: request(6, 11, 13, 10), index: 13, term: 7},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, w := newCommits(), newWire()
				if tt.matched != nil {
					c.match("p2", tt.matched)
				}
				if tt.early {
					c.add(tt.index, tt.term)
				}
				p := newPipeline("p2", w, c, written)
				defer closePipeline(t, p)
				if tt.sent != nil {
					mustSend(t, p, tt.sent)
				}
				synctest.Wait()
				if !tt.early {
					c.add(tt.index, tt.term)
				}
				synctest.Wait()
				var want []*raft.AppendEntriesRequest
				for _, r := range []*raft.AppendEntriesRequest{tt.sent, tt.want} {
					if r != nil {
						want = append(want, r)
					}
				}
				if diff := cmp.Diff(want, w.sent); diff != "" {
					t.Errorf("requests (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// TestNoticesAreCoalesced checks that a slow follower has at most one notice to answer, and gets
// the newest commit index then.
func TestNoticesAreCoalesced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, w := newCommits(), newWire()
		p := newPipeline("p2", w, c, written)
		defer closePipeline(t, p)
		mustSend(t, p, request(7, 1, 100, 0))
		commit := func(first, last uint64) {
			for i := first; i <= last; i++ {
				c.add(i, 7)
				synctest.Wait()
			}
		}
		commit(1, 50)
		w.answer(0, true)
		<-p.Consumer() // only this is an answer to Raft
		commit(51, 90)
		w.answer(1, true)
		synctest.Wait()
		w.answer(2, true)
		synctest.Wait()
		want := []*raft.AppendEntriesRequest{request(7, 1, 100, 0), note(7, 100, 7, 1), note(7, 100, 7, 90)}
		if diff := cmp.Diff(want, w.sent); diff != "" {
			t.Errorf("requests (-want +got):\n%s", diff)
		}
	})
}

// TestAnswersToNoticesAreDropped checks that Raft gets the answers to its own requests in order,
// whatever a follower answers to notices.
func TestAnswersToNoticesAreDropped(t *testing.T) {
	for _, accepted := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			c, w := newCommits(), newWire()
			p := newPipeline("p2", w, c, written)
			defer closePipeline(t, p)
			var want, got []*raft.AppendEntriesRequest
			for i := uint64(1); i <= 3; i++ {
				req := request(7, i, i, i-1)
				want = append(want, req)
				mustSend(t, p, req)
				c.add(i, 7)
				synctest.Wait()
				w.answer(len(w.sent)-2, true) // the request
				w.answer(len(w.sent)-1, accepted)
				synctest.Wait()
			}
			if n := len(w.sent); n != 2*len(want) {
				t.Errorf("got %d requests, want %d and as many notices", n, len(want))
			}
			for range want {
				got = append(got, (<-p.Consumer()).Request())
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("answered requests (-want +got):\n%s", diff)
			}
			synctest.Wait()
			select {
			case f := <-p.Consumer():
				t.Errorf("got another answer, to %+v", f.Request())
			default:
			}
		})
	}
}

// TestNoticeOfALateRequest checks which notice follows when a commit comes between the moment when
// Raft made a request and the moment when it sent it.
func TestNoticeOfALateRequest(t *testing.T) {
	late := request(7, 2, 2, 0)
	for _, tt := range []struct {
		name      string
		committed uint64
		want      []*raft.AppendEntriesRequest
	}{
		{"its entry", 2, []*raft.AppendEntriesRequest{request(7, 1, 1, 0), note(7, 1, 7, 1), late, note(7, 2, 7, 2)}},
		{"an entry before", 1, []*raft.AppendEntriesRequest{request(7, 1, 1, 0), note(7, 1, 7, 1), late}},
	} {
		synctest.Test(t, func(t *testing.T) {
			c, w := newCommits(), newWire()
			p := newPipeline("p2", w, c, written)
			defer closePipeline(t, p)
			mustSend(t, p, request(7, 1, 1, 0))
			c.add(tt.committed, 7)
			synctest.Wait()
			w.answer(1, true)
			synctest.Wait()
			mustSend(t, p, late)
			synctest.Wait()
			if diff := cmp.Diff(tt.want, w.sent); diff != "" {
				t.Errorf("%s: requests (-want +got):\n%s", tt.name, diff)
			}
		})
	}
}

// TestPipelineClosesWithABlockedNotice checks that a follower that answers nothing holds up neither
// commits nor the end of its pipeline.
func TestPipelineClosesWithABlockedNotice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, w := newCommits(), newWire()
		p := newPipeline("p2", w, c, written)
		mustSend(t, p, request(7, 1, 9, 0))
		w.full = true
		c.add(1, 7)
		synctest.Wait()
		c.add(2, 7)
		if n := len(w.sent); n != 2 {
			t.Fatalf("got %d requests, want one and a notice", n)
		}
		sent := make(chan error, 1)
		go func() {
			_, err := p.AppendEntries(request(7, 10, 10, 2), &raft.AppendEntriesResponse{})
			sent <- err
		}()
		closePipeline(t, p)
		if err := <-sent; err == nil {
			t.Error("send on a closed pipeline: got no error")
		}
		c.add(3, 7) // reaches no pipeline
		synctest.Wait()
		if len(c.pipelines) != 0 {
			t.Errorf("got %d open pipelines, want none", len(c.pipelines))
		}
	}) // fails if a goroutine of the pipeline is left
}

// TestNoticeAfterACall checks that a pipeline that has sent nothing yet tells a follower of entries
// that an ordinary call has brought.
func TestNoticeAfterACall(t *testing.T) {
	here, there := testGate(t), testGate(t)
	received := make(chan *raft.AppendEntriesRequest, 2)
	go func() { // ends with the test
		for {
			select {
			case rpc := <-there.Consumer():
				received <- rpc.Command.(*raft.AppendEntriesRequest)
				rpc.Respond(&raft.AppendEntriesResponse{RPCHeader: header(), Term: 7, Success: true}, nil)
			case <-there.stop:
				return
			}
		}
	}()
	addr := there.LocalAddr()
	if err := here.AppendEntries("p2", addr, request(7, 11, 13, 10), &raft.AppendEntriesResponse{}); err != nil {
		t.Fatal(err)
	}
	<-received
	here.Committed(12, 7)
	p, err := here.AppendEntriesPipeline("p2", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = p.Close() }()
	select {
	case got := <-received:
		if diff := cmp.Diff(note(7, 13, 7, 12), got); diff != "" {
			t.Errorf("notice (-want +got):\n%s", diff)
		}
	case <-time.After(10 * time.Second):
		t.Error("wait for a notice: timed out")
	}
}
