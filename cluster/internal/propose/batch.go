package propose

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/holdfast-metal/holdfast/cluster/internal/wait"
	"github.com/holdfast-metal/holdfast/cluster/outcome"
	"github.com/holdfast-metal/holdfast/fsm"
)

const (
	// maxEntry bounds the bytes of one Raft entry, and so of one command.
	maxEntry = 512 << 10
	// maxBatch bounds the commands of one Raft entry.
	maxBatch = 1024
	// entriesInFlight is how many entries are proposed at once. The next ones fill up while
	// these are committed.
	entriesInFlight = 2
	// EnqueueTimeout bounds how long Raft may take to accept an entry.
	EnqueueTimeout = 10 * time.Second
	// entryField is the field of internalv1.Entry that holds the commands.
	entryField = protowire.Number(1)
)

// States of a proposal.
const (
	queued    int32 = iota // only in the batcher's queue
	taken                  // possibly in Raft's log
	abandoned              // canceled by its caller before it was taken
)

// proposal is one command on its way to the log.
type proposal struct {
	data  []byte // an encoded internalv1.Command
	state atomic.Int32
	done  chan answer // buffered
}

type answer struct {
	result fsm.Result
	err    *outcome.Error
}

// batcher packs concurrent commands into shared Raft entries, so that one disk write each
// does not limit throughput. It never waits for more commands. A single command is proposed
// at once; others gather while entries are in flight.
type batcher struct {
	raft  Log
	ready func() error // returns the reason why nothing may be proposed now
	size  func(commands int)

	turn  sync.Mutex // held from taking commands until Raft has them, so that entries stay in order
	mu    sync.Mutex // guards queue
	queue []*proposal
	wake  chan struct{}
}

func newBatcher(r Log, ready func() error, size func(int)) *batcher {
	return &batcher{raft: r, ready: ready, size: size, wake: make(chan struct{}, entriesInFlight)}
}

// add queues a command.
func (b *batcher) add(data []byte) *proposal {
	p := &proposal{data: data, done: make(chan answer, 1)}
	b.mu.Lock()
	b.queue = append(b.queue, p)
	b.mu.Unlock()
	select {
	case b.wake <- struct{}{}:
	default: // every worker is awake already
	}
	return p
}

// waiting reports how many commands are queued.
func (b *batcher) waiting() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.queue)
}

// run proposes until ctx ends. entriesInFlight of them run at once.
func (b *batcher) run(ctx context.Context) {
	for {
		if batch, wait := b.propose(); len(batch) > 0 {
			results, err := wait(ctx)
			b.answer(batch, results, err)
			continue
		}
		select {
		case <-b.wake:
		case <-ctx.Done():
			return
		}
	}
}

// take removes commands from the queue and returns them with their encoded entry.
func (b *batcher) take() (batch []*proposal, data []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(batch) == 0 && len(b.queue) > 0 {
		n, length := b.fits()
		batch, data = make([]*proposal, 0, n), make([]byte, 0, length) // capacity for all; abandoned ones are skipped
		for _, p := range b.queue[:n] {
			if p.state.CompareAndSwap(queued, taken) {
				batch = append(batch, p)
				data = protowire.AppendBytes(protowire.AppendTag(data, entryField, protowire.BytesType), p.data)
			}
		}
		clear(b.queue[:n])
		if b.queue = b.queue[n:]; len(b.queue) == 0 {
			b.queue = nil
		}
	}
	return batch, data
}

// fits returns how many queued commands fit into one entry, and its size. The lock must be
// held.
func (b *batcher) fits() (n, length int) {
	for _, p := range b.queue {
		size := protowire.SizeTag(entryField) + protowire.SizeBytes(len(p.data))
		if n == maxBatch || n > 0 && length+size > maxEntry {
			break
		}
		n, length = n+1, length+size
	}
	return n, length
}

// results waits for the outcome of an entry, and returns one result per command.
type results func(ctx context.Context) ([]fsm.Result, *outcome.Error)

// propose passes the next entry to Raft.
func (b *batcher) propose() ([]*proposal, results) {
	b.turn.Lock()
	defer b.turn.Unlock()
	batch, data := b.take()
	if len(batch) == 0 {
		return nil, nil
	}
	b.size(len(batch))
	if err := b.ready(); err != nil {
		return batch, func(context.Context) ([]fsm.Result, *outcome.Error) {
			return nil, &outcome.Error{Outcome: outcome.NotApplied, Err: err}
		}
	}
	return batch, propose(b.raft, data, len(batch))
}

func (b *batcher) answer(batch []*proposal, results []fsm.Result, err *outcome.Error) {
	for i, p := range batch {
		a := answer{err: err}
		if err == nil {
			a.result = results[i]
		}
		p.done <- a
	}
}

// propose passes an entry to Raft.
func propose(r Log, data []byte, commands int) results {
	future := r.Apply(data, EnqueueTimeout)
	return func(ctx context.Context) ([]fsm.Result, *outcome.Error) {
		if err := wait.For(ctx, future); err != nil {
			// The future's index may be read only after it has answered. Until then Raft
			// writes it.
			waiting := errors.Is(err, wait.ErrStopped)
			return nil, &outcome.Error{
				Outcome: Outcome(err, waiting || future.Index() > 0),
				Err:     fmt.Errorf("commit: %w", err),
			}
		}
		results, _ := future.Response().([]fsm.Result)
		if len(results) != commands {
			return nil, &outcome.Error{Outcome: outcome.Unknown, Err: errors.New("this peer's state machine has stopped")}
		}
		return results, nil
	}
}
