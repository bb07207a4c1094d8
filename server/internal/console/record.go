package console

import (
	"context"
	"fmt"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/server/auth"
	"github.com/holdfast-metal/holdfast/server/internal/edge"
)

const (
	flushEvery   = time.Second      // between two commits of a record
	flushBytes   = 64 << 10         // at most, in one commit
	maxPending   = 1 << 20          // bytes that wait for a commit; later ones are left out
	closeTimeout = 10 * time.Second // for the record of the end of a session
)

// session is a console session that this peer, the leader, has recorded as attached.
type session struct {
	s     *Service
	id    string
	keeps bool // it is recorded

	mu      sync.Mutex
	pending []*holdfastv1.ConsoleOutput
	size    int   // of pending
	missing int   // bytes that had no room
	offset  int64 // of pending in the record
	typed   int64
}

// begin records that the caller is attached. Nothing may flow before.
func (s *Service) begin(ctx context.Context, first *holdfastv1.AttachRequest) (*session, error) {
	return edge.RetryAborted(func() (*session, error) {
		c := auth.Command(ctx)
		c.Op = &internalv1.Command_OpenConsole{OpenConsole: &internalv1.OpenConsole{
			SessionId: fmt.Sprintf("con-%011x-%s", time.Now().UnixMilli(), edge.RandomHex(3)),
			RunId:     first.GetRunId(),
			ReadOnly:  first.GetReadOnly(),
			Record:    s.cfg.Record,
			KeepMs:    s.cfg.keep().Milliseconds(),
		}}
		made, err := edge.Apply[*holdfastv1.ConsoleSession](ctx, s.Cluster, c)
		if err != nil {
			return nil, err
		}
		return &session{s: s, id: made.GetSessionId(), keeps: made.GetRecorded()}, nil
	})
}

// show adds output to the record.
func (r *session) show(data []byte) {
	if !r.keeps {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.size+len(data) > maxPending {
		r.missing += len(data)
		return
	}
	r.note()
	r.pending = append(r.pending, &holdfastv1.ConsoleOutput{At: timestamppb.New(r.s.Time()), Data: data})
	r.size += len(data)
}

// note adds the number of missing bytes to the record.
func (r *session) note() {
	if r.missing == 0 {
		return
	}
	text := fmt.Appendf(nil, "\r\n[%d bytes were not recorded]\r\n", r.missing)
	r.pending = append(r.pending, &holdfastv1.ConsoleOutput{At: timestamppb.New(r.s.Time()), Data: text})
	r.size, r.missing = r.size+len(text), 0
}

// input counts input.
func (r *session) input(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.typed += int64(n)
}

// run commits the record until ctx ends.
func (r *session) run(ctx context.Context) {
	if !r.keeps {
		return
	}
	tick := time.NewTicker(flushEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		r.flush(ctx)
	}
}

// flush commits all pending output.
func (r *session) flush(ctx context.Context) {
	for {
		r.mu.Lock()
		n, size, cost := 0, 0, int64(0)
		for n < min(len(r.pending), fsm.MaxOutput) && (n == 0 || size+len(r.pending[n].GetData()) <= flushBytes) {
			size += len(r.pending[n].GetData())
			cost += int64(len(r.pending[n].GetData())) + 16
			n++
		}
		c := &internalv1.RecordConsole{SessionId: r.id, Offset: r.offset, Output: r.pending[:n:n]}
		r.mu.Unlock()
		if n == 0 {
			return
		}
		_, err := r.s.Cluster.Apply(ctx, &internalv1.Command{
			Time: timestamppb.Now(), Principal: "system", Op: &internalv1.Command_RecordConsole{RecordConsole: c},
		})
		if err != nil {
			if ctx.Err() == nil {
				r.s.Log.Warn("recording a console failed, will retry", "session", r.id, "error", err)
			}
			return // the pieces stay
		}
		r.mu.Lock()
		r.pending, r.size, r.offset = r.pending[n:], r.size-size, r.offset+cost
		if len(r.pending) == 0 {
			r.note()
		}
		r.mu.Unlock()
	}
}

// close records the end of the session. If this peer dies first, the next leader's first command
// does.
func (r *session) close(ctx context.Context, reason string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	r.flush(ctx)
	_, err := r.s.Cluster.Apply(ctx, &internalv1.Command{
		Time: timestamppb.Now(), Principal: "system", Op: &internalv1.Command_CloseConsole{
			CloseConsole: &internalv1.CloseConsole{SessionId: r.id, Reason: reason, TypedBytes: r.typed},
		},
	})
	if err != nil {
		r.s.Log.Warn("recording the end of a console session failed: the next leader records it", "session", r.id,
			"error", err)
	}
}
