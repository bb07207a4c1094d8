package terms

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
func (t *Terms) TransferTo(ctx context.Context, to string) (string, error) {
	if _, ok := t.Current(); !ok {
		return "", t.refusal(t.NotReady())
	}
	if err := t.handTo(ctx, to); err != nil {
		if _, ok := t.Current(); ok {
			return "", &fsm.Error{Code: fsm.FailedPrecondition, Reason: "NOT_TRANSFERRED", Message: err.Error()}
		}
		return "", &outcome.Error{Outcome: outcome.Unknown, Err: err}
	}
	if id, ok := t.AwaitSuccessor(ctx, newLeaderWait); ok {
		return id, nil
	}
	return "", &outcome.Error{
		Outcome: outcome.Unknown,
		Err:     errors.New("the leadership was handed over, but no new leader is known yet"),
	}
}

// handTo hands the leadership to a voter. If to is empty, it chooses one.
func (t *Terms) handTo(ctx context.Context, to string) error {
	if to == "" {
		return t.Transfer(ctx)
	}
	servers := t.cfg.Servers()
	i := slices.IndexFunc(servers, func(s raft.Server) bool { return string(s.ID) == to })
	switch {
	case to == t.cfg.Self:
		return fmt.Errorf("%s already leads", to)
	case i < 0 || servers[i].Suffrage != raft.Voter:
		return fmt.Errorf("%s is not a voter", to)
	}
	s := servers[i]
	t.handingOver.Store(true)
	defer t.handingOver.Store(false)
	if err := wait.For(ctx, t.raft.LeadershipTransferToServer(s.ID, s.Address)); err != nil {
		return fmt.Errorf("hand the leadership to %s: %w", to, err)
	}
	return nil
}

// Transfer hands the leadership to the most up-to-date voter that answers.
func (t *Terms) Transfer(ctx context.Context) error {
	candidates := t.successors(ctx)
	if len(candidates) == 0 {
		return errors.New("no other voter answers")
	}
	t.handingOver.Store(true)
	defer t.handingOver.Store(false)
	var errs []error
	for _, s := range candidates {
		err := wait.For(ctx, t.raft.LeadershipTransferToServer(s.ID, s.Address))
		if err == nil || t.raft.State() != raft.Leader {
			t.cfg.Logger.Info("leadership handed over", "to", s.ID)
			return nil
		}
		errs = append(errs, fmt.Errorf("hand the leadership to %s: %w", s.ID, err))
	}
	return errors.Join(errs...)
}

// successors returns the other voters that answer, most up-to-date first.
func (t *Terms) successors(ctx context.Context) []raft.Server {
	ctx, cancel := context.WithTimeout(ctx, transferTimeout)
	defer cancel()
	var (
		wg    sync.WaitGroup
		mu    sync.Mutex
		last  = map[raft.ServerID]uint64{}
		found []raft.Server
	)
	for _, s := range t.cfg.Servers() {
		if s.Suffrage != raft.Voter || string(s.ID) == t.cfg.Self {
			continue
		}
		wg.Go(func() {
			index, err := t.cfg.Peers.LastIndex(ctx, string(s.ID))
			if err != nil {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			last[s.ID] = index
			found = append(found, s)
		})
	}
	wg.Wait()
	slices.SortFunc(found, func(a, b raft.Server) int { return cmp.Compare(last[b.ID], last[a.ID]) })
	return found
}

// AwaitSuccessor blocks until another peer leads and returns its id. ok is false if most
// has passed.
func (t *Terms) AwaitSuccessor(ctx context.Context, most time.Duration) (id string, ok bool) {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	for {
		changed := t.cfg.Changed.Wait()
		if id, self, ok := t.cfg.Leader(); ok && !self {
			return id, true
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return "", false
		}
	}
}
