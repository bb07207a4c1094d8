package consoles

import (
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/fsm/internal/core"
	"github.com/holdfast-metal/holdfast/fsm/internal/refusal"
	"github.com/holdfast-metal/holdfast/fsm/internal/schema"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// The limits of records, in recorded_bytes.
const (
	// MaxRecord bounds the record of one session. Later output is not recorded.
	MaxRecord = 1 << 20
	// maxRecords bounds all records. The oldest one of an ended session makes room.
	maxRecords = 64 << 20
	blockBytes = 16 << 10 // a block grows to about this size
)

// Record appends output to the record of a session. The offset is the proposer's: output that is
// already stored is skipped, so that it can be proposed again. A gap is refused.
func Record(t *core.Tx, c *internalv1.RecordConsole) *refusal.Error {
	s, ok := t.ConsoleSessions.Get(c.GetSessionId())
	switch {
	case !ok:
		return refusal.New(refusal.NotFound, "CONSOLE_SESSION_NOT_FOUND", "console session %q not found",
			c.GetSessionId()).With("session_id", c.GetSessionId())
	case !s.GetRecorded() || s.GetDetachedAt() != nil:
		return refusal.New(refusal.FailedPrecondition, "NOT_RECORDED",
			"console session %s is not recorded, or has ended", s.GetSessionId())
	case c.GetOffset() > s.GetRecordedBytes():
		return refusal.New(refusal.FailedPrecondition, refusal.ReasonLogGap,
			"output at %d refused: the record of console session %s has %d bytes", c.GetOffset(), s.GetSessionId(),
			s.GetRecordedBytes())
	}
	s = proto.CloneOf(s)
	at, more := c.GetOffset(), &internalv1.StoredOutput{SessionId: s.GetSessionId(), Offset: s.GetRecordedBytes()}
	for _, out := range c.GetOutput() {
		at += cost(out)
		switch {
		case at <= s.GetRecordedBytes() || s.GetTruncated():
		case s.GetRecordedBytes()+cost(out) > MaxRecord || !roomFor(t, cost(out)):
			s.Truncated = true
		default:
			more.Output = append(more.Output, out)
			s.RecordedBytes += cost(out)
			t.Meta.ConsoleBytes += cost(out)
		}
	}
	store(t, more)
	t.ConsoleSessions.Put(s)
	return nil
}

// store appends a block to the table. It joins small blocks.
func store(t *core.Tx, more *internalv1.StoredOutput) {
	if more.Size = blockCost(more); more.Size == 0 {
		return
	}
	for last := range t.ConsoleOutput.Descend(more.GetSessionId()+"/", more.GetSessionId()+"0") { // "/" + 1
		if last.GetSize()+more.GetSize() <= blockBytes {
			joined := proto.CloneOf(last)
			joined.Output = append(joined.GetOutput(), more.GetOutput()...)
			joined.Size += more.GetSize()
			more = joined
		}
		break
	}
	t.ConsoleOutput.Put(more)
}

// roomFor reports whether all records together have room for n more bytes. The oldest record of a
// session that has ended makes room.
func roomFor(t *core.Tx, n int64) bool {
	for t.Meta.GetConsoleBytes()+n > maxRecords {
		var oldest *holdfastv1.ConsoleSession
		for _, s := range t.ConsoleSessions.Scan(schema.ConsolesRecorded, "", "") {
			oldest = s
			break
		}
		if oldest == nil {
			return false
		}
		forget(t, oldest)
		oldest = proto.CloneOf(oldest)
		oldest.RecordedBytes = 0
		t.ConsoleSessions.Put(oldest)
	}
	return true
}
