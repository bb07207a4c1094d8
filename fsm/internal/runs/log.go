package runs

import (
	"fmt"
	"iter"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/fsm/internal/core"
	"github.com/holdfast-metal/holdfast/fsm/internal/lex"
	"github.com/holdfast-metal/holdfast/fsm/internal/lifecycle"
	"github.com/holdfast-metal/holdfast/fsm/internal/refusal"
	"github.com/holdfast-metal/holdfast/fsm/internal/runlog"
	"github.com/holdfast-metal/holdfast/fsm/internal/schema"
	"github.com/holdfast-metal/holdfast/fsm/internal/shallow"
	"github.com/holdfast-metal/holdfast/fsm/internal/table"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// AppendRunLogs appends to the logs of many runs, or to none if one would have a gap. Runs
// that have ended meanwhile are skipped, so that they do not fail the others.
func AppendRunLogs(t *core.Tx, c *internalv1.AppendRunLogs) *refusal.Error {
	runs := map[string]*holdfastv1.Run{} // after the append
	var blocks []*internalv1.StoredLog
	for _, a := range c.GetAppends() {
		run, seen := runs[a.GetRunId()]
		if !seen {
			var ok bool
			if run, ok = t.Runs.Get(a.GetRunId()); !ok || lifecycle.Ended(run) {
				continue
			}
			run = shallow.Run(run)
			runs[a.GetRunId()] = run
		}
		block, err := logBlock(t, run, a)
		if err != nil {
			return err
		}
		if block != nil {
			blocks = append(blocks, block)
		}
	}
	for _, b := range blocks {
		t.Logs.Put(b)
		if run := runs[b.GetRunId()]; run != nil {
			run.Revision = t.Index
			t.Runs.Put(run) // no event: a log tail follows log_bytes
			delete(runs, b.GetRunId())
		}
	}
	return nil
}

// appendLog appends to a run's log. The caller stores the run.
func appendLog(t *core.Tx, run *holdfastv1.Run, a *internalv1.LogAppend) *refusal.Error {
	block, err := logBlock(t, run, a)
	if block != nil {
		t.Logs.Put(block)
	}
	return err
}

// AppendReported appends to a run's log on behalf of others than the executor. The executor's
// offsets do not count these bytes. The caller stores the run.
func AppendReported(t *core.Tx, run *holdfastv1.Run, c *holdfastv1.LogChunk) {
	before := run.GetLogBytes()
	own := &internalv1.LogAppend{RunId: run.GetRunId(), Offset: OwnLogBytes(run), Chunks: []*holdfastv1.LogChunk{c}}
	_ = appendLog(t, run, own) // it leaves no gap
	run.LogConcurrentBytes += run.GetLogBytes() - before
}

// OwnLogBytes returns the length of a run's log without the bytes of others than the
// executor. It is the offset of the executor's next append.
func OwnLogBytes(run *holdfastv1.Run) int64 { return run.GetLogBytes() - run.GetLogConcurrentBytes() }

// logBlock returns the next block of a run's log, or nil, and counts it in the run. The
// caller stores both. The offset is the proposer's: bytes that are already stored are
// skipped, so that an append with an unknown outcome can be proposed again. A gap is refused.
func logBlock(t *core.Tx, run *holdfastv1.Run, a *internalv1.LogAppend) (*internalv1.StoredLog, *refusal.Error) {
	if a == nil || run.GetLogTruncated() {
		return nil, nil
	}
	at := a.GetOffset()
	if at > OwnLogBytes(run) {
		return nil, refusal.New(refusal.Aborted, refusal.ReasonLogGap,
			"log of run %s has %d bytes: an append at %d would leave a gap",
			run.GetRunId(), OwnLogBytes(run), at)
	}
	var fresh []*holdfastv1.LogChunk
	at += run.GetLogConcurrentBytes()
	end := run.GetLogBytes()
	for _, c := range a.GetChunks() {
		from, to := at, at+int64(len(c.GetData()))
		at = to
		if to <= end {
			continue
		}
		data := c.GetData()[max(0, end-from):]
		if room := runlog.Max - end; int64(len(data)) > room {
			data = data[:room]
			run.LogTruncated = true
		}
		if len(data) > 0 {
			fresh = append(fresh, &holdfastv1.LogChunk{
				Ts:        c.GetTs(),
				Stream:    c.GetStream(),
				Step:      c.GetStep(),
				Attempt:   c.GetAttempt(),
				Data:      data,
				Principal: lex.Clip(c.GetPrincipal(), core.MaxPrincipal),
			})
			end += int64(len(data))
		}
		if run.GetLogTruncated() {
			note := fmt.Appendf(nil, "\n[log truncated: it has reached its cap of %d bytes]\n", runlog.Max)
			fresh = append(fresh, &holdfastv1.LogChunk{
				Ts:        t.Now,
				Stream:    "stderr",
				Step:      c.GetStep(),
				Attempt:   c.GetAttempt(),
				Data:      note,
				Truncated: true,
			})
			end += int64(len(note))
			break
		}
	}
	if len(fresh) == 0 {
		return nil, nil
	}
	payload, err := proto.MarshalOptions{Deterministic: true}.Marshal(&internalv1.LogChunks{Chunks: fresh})
	if err != nil {
		return nil, refusal.New(refusal.InvalidArgument, "LOG_ENCODING",
			"encode log of run %s: %v", run.GetRunId(), err)
	}
	block := &internalv1.StoredLog{RunId: run.GetRunId(), Block: &internalv1.LogBlock{
		Offset: run.GetLogBytes(), Size: end - run.GetLogBytes(), Payload: payload}}
	run.LogBytes = end
	return block, nil
}

// CompactRunLog replaces blocks of a log with one compressed block, if it has the same bytes.
// The proposer compresses, because the output of compressors differs between versions, and
// peers must agree.
func CompactRunLog(t *core.Tx, c *internalv1.CompactRunLog) *refusal.Error {
	run, ok := t.Runs.Get(c.GetRunId())
	if !ok || !lifecycle.Ended(run) || run.GetLogCompacted() || run.GetArchive() != nil {
		return nil
	}
	b := c.GetBlock()
	var old []*internalv1.LogBlock
	end := b.GetOffset()
	for l := range t.Logs.Ascend(run.GetRunId()+"/", "") {
		if o := l.GetBlock().GetOffset(); o >= b.GetOffset() && o == end && end < b.GetOffset()+b.GetSize() {
			old = append(old, l.GetBlock())
			end += l.GetBlock().GetSize()
		}
	}
	if end != b.GetOffset()+b.GetSize() || len(old) == 0 {
		return refusal.New(refusal.Aborted, refusal.ReasonLogGap, "compressed log of run %s does not fit its blocks",
			run.GetRunId())
	}
	if !t.Codec.SameText([]*internalv1.LogBlock{b}, old) {
		return refusal.New(refusal.InvalidArgument, "LOG_MISMATCH",
			"compressed log of run %s at %d differs from the run's log",
			run.GetRunId(), b.GetOffset())
	}
	for _, o := range old {
		t.Logs.Delete(schema.LogKey(run.GetRunId(), o.GetOffset()))
	}
	t.Logs.Put(&internalv1.StoredLog{RunId: run.GetRunId(), Block: b})
	if end == run.GetLogBytes() {
		run = shallow.Run(run)
		run.LogCompacted = true
		t.Runs.Put(run)
	}
	return nil
}

// RunLog returns a run's log from a byte offset, in order. The first chunk is cut to start
// there.
func (v *View) RunLog(runID string, offset int64) iter.Seq[*holdfastv1.LogChunk] {
	return v.codec.Read(runID, table.Map(v.blocksFrom(runID, offset), (*internalv1.StoredLog).GetBlock), offset)
}

// blocksFrom returns the blocks of a log from the one with a byte on. A tail polls often, so
// it must not read old blocks again.
func (v *View) blocksFrom(runID string, offset int64) iter.Seq[*internalv1.StoredLog] {
	return func(yield func(*internalv1.StoredLog) bool) {
		after := ""
		for l := range v.s.Logs.Descend(runID+"/", schema.LogKey(runID, max(0, offset))) {
			after = schema.LogKey(runID, l.GetBlock().GetOffset())
			if !yield(l) {
				return
			}
			break
		}
		for l := range v.s.Logs.Ascend(runID+"/", after) {
			if !yield(l) {
				return
			}
		}
	}
}

// LogBlocks returns the blocks of a run's log as stored, in order.
func (v *View) LogBlocks(runID string) []*internalv1.LogBlock {
	return slices.Collect(table.Map(v.s.Logs.Ascend(runID+"/", ""), (*internalv1.StoredLog).GetBlock))
}
