package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/holdfast-metal/holdfast/cluster/internal/wait"
	"github.com/holdfast-metal/holdfast/cluster/outcome"
	"github.com/holdfast-metal/holdfast/fsm"
)

const (
	// newLeaderWait bounds how long TransferTo waits for the new leader.
	newLeaderWait = 3 * time.Second
	// transferTimeout bounds the search for a successor.
	transferTimeout = 100 * time.Millisecond
)

// TransferTo hands the leadership to another voter and returns the id of the new leader. If
// to is empty, it chooses the most up-to-date voter that answers. It works only on the
// leader.
func (n *Node) TransferTo(ctx context.Context, to string) (string, error) {
	if _, ok := n.terms.current(); !ok {
		return "", n.refusal(n.terms.notReady())
	}
	if err := n.terms.transferTo(ctx, to); err != nil {
		if _, ok := n.terms.current(); ok {
			return "", &fsm.Error{Code: fsm.FailedPrecondition, Reason: "NOT_TRANSFERRED", Message: err.Error()}
		}
		return "", &outcome.Error{Outcome: outcome.Unknown, Err: err}
	}
	if id, ok := n.terms.awaitSuccessor(ctx, newLeaderWait); ok {
		return id, nil
	}
	return "", &outcome.Error{
		Outcome: outcome.Unknown,
		Err:     errors.New("the leadership was handed over, but no new leader is known yet"),
	}
}

// transferTo hands the leadership to a voter. If to is empty, it chooses one.
func (ts *terms) transferTo(ctx context.Context, to string) error {
	if to == "" {
		return ts.transfer(ctx)
	}
	s, ok := ts.n.server(to)
	switch {
	case to == ts.n.cfg.NodeID:
		return fmt.Errorf("%s already leads", to)
	case !ok || s.Suffrage != raft.Voter:
		return fmt.Errorf("%s is not a voter", to)
	}
	ts.handingOver.Store(true)
	defer ts.handingOver.Store(false)
	if err := wait.For(ctx, ts.n.raft.LeadershipTransferToServer(s.ID, s.Address)); err != nil {
		return fmt.Errorf("hand the leadership to %s: %w", to, err)
	}
	return nil
}

// transfer hands the leadership to the most up-to-date voter that answers.
func (ts *terms) transfer(ctx context.Context) error {
	candidates := ts.successors(ctx)
	if len(candidates) == 0 {
		return errors.New("no other voter answers")
	}
	ts.handingOver.Store(true)
	defer ts.handingOver.Store(false)
	var errs []error
	for _, s := range candidates {
		err := wait.For(ctx, ts.n.raft.LeadershipTransferToServer(s.ID, s.Address))
		if err == nil || ts.n.raft.State() != raft.Leader {
			ts.n.log.Info("leadership handed over", "to", s.ID)
			return nil
		}
		errs = append(errs, fmt.Errorf("hand the leadership to %s: %w", s.ID, err))
	}
	return errors.Join(errs...)
}

// successors returns the other voters that answer, most up-to-date first.
func (ts *terms) successors(ctx context.Context) []raft.Server {
	ctx, cancel := context.WithTimeout(ctx, transferTimeout)
	defer cancel()
	var (
		wg    sync.WaitGroup
		mu    sync.Mutex
		last  = map[raft.ServerID]uint64{}
		found []raft.Server
	)
	for _, s := range ts.n.servers() {
		if s.Suffrage != raft.Voter || string(s.ID) == ts.n.cfg.NodeID {
			continue
		}
		wg.Go(func() {
			st, err := ts.n.reporter.peerStats(ctx, string(s.ID))
			if err != nil {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			last[s.ID] = st.GetLastIndex()
			found = append(found, s)
		})
	}
	wg.Wait()
	slices.SortFunc(found, func(a, b raft.Server) int { return cmp.Compare(last[b.ID], last[a.ID]) })
	return found
}

// awaitSuccessor blocks until another peer leads and returns its id. ok is false if most
// has passed.
func (ts *terms) awaitSuccessor(ctx context.Context, most time.Duration) (id string, ok bool) {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	for {
		changed := ts.n.changed.Wait()
		if id, self, ok := ts.n.Leader(); ok && !self {
			return id, true
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return "", false
		}
	}
}
