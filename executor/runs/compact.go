package runs

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/executor/task"
	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/internal/wait"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// maxCompactBlock is the maximum number of bytes of log in one compressed block. It keeps
// the command well below the size limit of a log entry.
const maxCompactBlock = 256 << 10

// compact compresses the logs of ended runs outside of Apply: the leader compresses once,
// and every peer stores the same bytes.
func (t *term) compact(ctx context.Context) error {
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		return fmt.Errorf("make zstd encoder: %w", err)
	}
	refused := &refusals{runs: map[string]bool{}}
	for {
		changed := t.state.Changed()
		view := t.state.View()
		g, gctx := errgroup.WithContext(ctx)
		g.SetLimit(16)
		found := false
		for run := range view.UncompactedRuns() {
			if refused.has(run.GetRunId()) {
				continue
			}
			found = true
			g.Go(func() error { return refused.note(t, run.GetRunId(), t.compactRun(gctx, enc, view, run.GetRunId())) })
		}
		if err := g.Wait(); err != nil {
			return err
		}
		if found {
			continue
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		}
		// Do not scan after each change: runs that end within a LogFlush share a scan and
		// their Raft entries.
		if err := wait.Sleep(ctx, t.cfg.LogFlush); err != nil {
			return err
		}
	}
}

// refusals are the runs whose compressed log the FSM refused in this term. They are not
// retried, because an uncompressed log does no harm.
type refusals struct {
	mu   sync.Mutex
	runs map[string]bool
}

func (r *refusals) has(run string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.runs[run]
}

// note remembers a refusal and returns other errors.
func (r *refusals) note(t *term, run string, err error) error {
	if refused, ok := errors.AsType[*fsm.Error](err); !ok || refused.Reason == fsm.ReasonStaleEpoch {
		return err
	}
	t.cfg.Logger.Error("log stays uncompressed", "run", run, "error", err)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.runs[run] = true
	return nil
}

func (t *term) compactRun(ctx context.Context, enc *zstd.Encoder, view *fsm.View, run string) error {
	var group []*internalv1.LogBlock
	size := int64(0)
	commit := func() error {
		if len(group) == 0 {
			return nil
		}
		block, err := compress(enc, group)
		if err != nil {
			return fmt.Errorf("compress the log of run %s: %w", run, err)
		}
		group, size = nil, 0
		_, err = task.Propose(ctx, t.proposer, t.epoch, &internalv1.Command{Op: &internalv1.Command_CompactRunLog{
			CompactRunLog: &internalv1.CompactRunLog{RunId: run, Block: block},
		}})
		// failpoint: log-compacted
		return err
	}
	// failpoint: log-to-compact
	blocks := view.LogBlocks(run)
	for i, b := range blocks {
		// An earlier leader may have compressed the first blocks. The last one is always
		// proposed, because it marks the log as compacted.
		compressed := b.GetCodec() != internalv1.LogBlock_PLAIN
		if compressed || size+b.GetSize() > maxCompactBlock {
			if err := commit(); err != nil {
				return err
			}
		}
		if compressed && i < len(blocks)-1 {
			continue
		}
		group, size = append(group, b), size+b.GetSize()
	}
	return commit()
}

// compress merges adjacent blocks into one compressed block.
func compress(enc *zstd.Encoder, group []*internalv1.LogBlock) (*internalv1.LogBlock, error) {
	if len(group) == 1 && group[0].GetCodec() != internalv1.LogBlock_PLAIN {
		return group[0], nil
	}
	all := &internalv1.LogChunks{}
	out := &internalv1.LogBlock{Offset: group[0].GetOffset(), Codec: internalv1.LogBlock_ZSTD}
	for _, b := range group {
		var chunks internalv1.LogChunks
		if err := proto.Unmarshal(b.GetPayload(), &chunks); err != nil {
			return nil, err
		}
		all.Chunks = append(all.Chunks, chunks.GetChunks()...)
		out.Size += b.GetSize()
	}
	raw, err := proto.Marshal(all)
	if err != nil {
		return nil, err
	}
	out.Payload = enc.EncodeAll(raw, nil)
	return out, nil
}
