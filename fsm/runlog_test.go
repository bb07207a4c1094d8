package fsm_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/fsm/fsmtest"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// logging returns a peer with the running runs run-request-1 and run-request-2.
func logging(t *testing.T) (*fsmtest.Peer, string, string) {
	t.Helper()
	p := fsmtest.NewPeer()
	plan(t, p, "plan/x", "reboot")
	for _, n := range []string{"1", "2"} {
		register(t, p, "m-"+n, ready)
		start(t, p, "m-"+n, "request-"+n, "", "plan/x")
		begin(t, p, "run-request-"+n)
	}
	return p, "run-request-1", "run-request-2"
}

func appendOp(appends ...*internalv1.LogAppend) *internalv1.AppendRunLogs {
	return &internalv1.AppendRunLogs{Appends: appends}
}

// chunks returns a log from an offset as "offset:text".
func chunks(p *fsmtest.Peer, run string, offset int64) []string {
	var got []string
	for c := range p.View().RunLog(run, offset) {
		got = append(got, fmt.Sprintf("%d:%s", c.GetOffset(), c.GetData()))
	}
	return got
}

// readsFromAnywhere reads a log from every byte, and compares with its whole text.
func readsFromAnywhere(t *testing.T, p *fsmtest.Peer, run, want string) {
	t.Helper()
	if r := getRun(t, p, run); r.GetLogBytes() != int64(len(want)) {
		t.Fatalf("log_bytes: got %d, want %d", r.GetLogBytes(), len(want))
	}
	for from := -1; from <= len(want)+1; from++ {
		var got strings.Builder
		at := int64(min(max(0, from), len(want)))
		for c := range p.View().RunLog(run, int64(from)) {
			if c.GetOffset() != at || c.GetRunId() != run || len(c.GetData()) == 0 {
				t.Fatalf("from %d: got a chunk at %d of run %q with %d bytes, want one at %d", from, c.GetOffset(), c.GetRunId(),
					len(c.GetData()), at)
			}
			got.Write(c.GetData())
			at += int64(len(c.GetData()))
		}
		if got.String() != want[min(max(0, from), len(want)):] {
			t.Fatalf("from %d: got %q, want the rest of %q", from, got.String(), want)
		}
	}
}

func TestAppendLog(t *testing.T) {
	p, run, other := logging(t)
	events := p.View().LastRunEvent()
	const first, second, third = "grüße\n", "zwei\n", "日本語\n"
	at := int64(len(first + second))
	do(t, p, appendOp(logAppend(run, 0, first, second), logAppend(other, 0, "other\n")))
	do(t, p, appendOp(logAppend(run, at, "", third)))
	want := []string{"0:" + first, fmt.Sprintf("%d:%s", len(first), second), fmt.Sprintf("%d:%s", at, third)}
	if diff := cmp.Diff(want, chunks(p, run, 0)); diff != "" {
		t.Errorf("log (-want +got):\n%s", diff)
	}
	// In the middle of a chunk, and of a character.
	if diff := cmp.Diff([]string{fmt.Sprintf("%d:%s", at+1, third[1:])}, chunks(p, run, at+1)); diff != "" {
		t.Errorf("log from %d (-want +got):\n%s", at+1, diff)
	}
	readsFromAnywhere(t, p, run, first+second+third)
	readsFromAnywhere(t, p, other, "other\n")
	if p.View().LastRunEvent() != events {
		t.Error("an append made an event")
	}
	if r := getRun(t, p, run); r.GetRevision() != p.Index {
		t.Errorf("revision: got %d, want %d, so that a tail wakes", r.GetRevision(), p.Index)
	}
	for c := range p.View().RunLog(run, 0) {
		want := &holdfastv1.LogChunk{RunId: run, Stream: "stdout", Step: "reboot", Attempt: 1, Data: []byte(first)}
		same(t, "chunk", want, c)
		break
	}
	if n := len(chunks(p, "run-none", 0)); n != 0 {
		t.Errorf("log of a run that is not there: got %d chunks", n)
	}
}

func TestAppendLogAgain(t *testing.T) {
	p, run, other := logging(t)
	const text = "abcdefghij"
	do(t, p, appendOp(logAppend(run, 0, text[:4], text[4:7]), logAppend(run, 7, text[7:])))
	before := dump(t, p)
	for _, again := range []*internalv1.LogAppend{
		logAppend(run, 0, text[:4], text[4:7]), logAppend(run, 0, text), logAppend(run, 3, text[3:4],
			text[4:]), logAppend(run, 9, "j"),
		logAppend(run, 10), logAppend(run, 10, ""), logAppend(run, 0), {RunId: run}, logAppend("run-none", 5, "x"),
	} {
		do(t, p, appendOp(again, logAppend(other, 0)))
		if diff := before.Diff(dump(t, p)); diff != "" {
			t.Fatalf("append of %v again has changed:\n%s", again, diff)
		}
	}
	do(t, p, appendOp(logAppend(run, 2, text[2:5], text[5:]+"klm"))) // the end is new
	// The same bytes twice in one command.
	do(t, p, appendOp(logAppend(run, 12, "mno"), logAppend(run, 0, text+"klmnopq")))
	readsFromAnywhere(t, p, run, text+"klmnopq")
}

func TestAppendLogGap(t *testing.T) {
	p, run, other := logging(t)
	do(t, p, appendOp(logAppend(run, 0, "0123456789")))
	for _, a := range []*internalv1.LogAppend{logAppend(run, 11, "x"), logAppend(other, 1, "x"), logAppend(run, 11),
		logAppend(run, 1<<62, "x")} {
		refused(t, p, appendOp(a), fsm.Aborted, fsm.ReasonLogGap)
		// Nothing of it is stored, not even the part before the gap.
		refused(t, p, appendOp(logAppend(run, 10, "y"), logAppend(other, 0, "z"), proto.CloneOf(a), logAppend(run, 12, "x"),
			logAppend(other, 9, "x")), fsm.Aborted, fsm.ReasonLogGap)
	}
	do(t, p, appendOp(logAppend(run, 10, "abc"), logAppend(run, 13, "def"), logAppend(other, 0, "z")))
	readsFromAnywhere(t, p, run, "0123456789abcdef")
}

func TestAppendLogToRunsThatHaveEnded(t *testing.T) {
	p, run, other := logging(t)
	do(t, p, appendOp(logAppend(run, 0, "abc")))
	end(t, p, run, succeeded)
	want := getRun(t, p, run)
	do(t, p, appendOp(logAppend(run, 3, "late"), logAppend(run, 99, "later"), logAppend(other, 0, "fine")))
	same(t, "ended run", want, getRun(t, p, run))
	readsFromAnywhere(t, p, run, "abc")
	readsFromAnywhere(t, p, other, "fine")
}

func TestLogIsCapped(t *testing.T) {
	note := fmt.Sprintf("\n[log truncated: it has reached its cap of %d bytes]\n", fsm.MaxRunLog)
	block := strings.Repeat("x", fsm.MaxRunLog/4)
	tests := []struct {
		name   string
		append []string
		kept   int // bytes before the note
		capped bool
	}{
		{"just full", []string{block, block, block, block}, fsm.MaxRunLog, false},
		{"one byte more", []string{block, block, block, block, "y"}, fsm.MaxRunLog, true},
		{"in the middle of a chunk", []string{block, block, block, block[1:], "äöü"}, fsm.MaxRunLog, true},
		{"at once", []string{strings.Repeat(block, 5)}, fsm.MaxRunLog, true},
	}
	for _, tt := range tests {
		for _, how := range []string{"one command", "many commands"} {
			t.Run(tt.name+", "+how, func(t *testing.T) {
				p, run, _ := logging(t)
				all := strings.Join(tt.append, "")
				if how == "one command" {
					do(t, p, appendOp(logAppend(run, 0, tt.append...)))
				} else {
					at := int64(0)
					for _, a := range tt.append {
						do(t, p, appendOp(logAppend(run, at, a)))
						at += int64(len(a))
					}
				}
				want := all[:tt.kept]
				if tt.capped {
					want += note
				}
				got := fsmtest.LogText(p.View(), run)
				r := getRun(t, p, run)
				if got != want || r.GetLogTruncated() != tt.capped || r.GetLogBytes() != int64(len(want)) {
					t.Fatalf("got %d bytes, log_bytes %d, truncated %v; want %d and %v", len(got), r.GetLogBytes(),
						r.GetLogTruncated(), len(want), tt.capped)
				}
				if !tt.capped {
					return
				}
				tail := slices.Collect(p.View().RunLog(run, r.GetLogBytes()-1))
				last := tail[len(tail)-1]
				if !last.GetTruncated() || last.GetStream() != "stderr" || last.GetTs() == nil || last.GetStep() != "reboot" ||
					last.GetAttempt() != 1 {
					t.Errorf("note: got %v, want it marked", last)
				}
				// Nothing follows, at any offset.
				before := dump(t, p)
				for _, at := range []int64{0, fsm.MaxRunLog, r.GetLogBytes(), 1 << 40} {
					do(t, p, appendOp(logAppend(run, at, "more")))
				}
				if diff := before.Diff(dump(t, p)); diff != "" {
					t.Errorf("after the cap:\n%s", diff)
				}
				do(t, p, &internalv1.EndAttempt{RunId: run, Step: "reboot", Attempt: 1, Outcome: succeeded,
					Log: logAppend(run, 1<<40, "the end")})
				if got := fsmtest.LogText(p.View(), run); got != want {
					t.Error("the log has grown")
				}
			})
		}
	}
}

// TestLogCapInABatch checks that bytes beyond the cap of one run are not a gap, and do not
// affect other runs.
func TestLogCapInABatch(t *testing.T) {
	p, run, other := logging(t)
	big := strings.Repeat("x", fsm.MaxRunLog)
	do(t, p, appendOp(logAppend(run, 0, big, "y"), logAppend(run, fsm.MaxRunLog+1, "z"),
		logAppend(run, fsm.MaxRunLog+900, "z"), logAppend(other, 0, "fine")))
	readsFromAnywhere(t, p, other, "fine")
	if r := getRun(t, p, run); !r.GetLogTruncated() {
		t.Error("not truncated")
	}
}

func TestCompactLog(t *testing.T) {
	p, run, _ := logging(t)
	var text strings.Builder
	for i := range 20 { // blocks of two chunks, 30 bytes
		s := fmt.Sprintf("line %02d: grüße\n", i)
		do(t, p, appendOp(logAppend(run, int64(text.Len()), s[:11], s[11:])))
		text.WriteString(s)
	}
	size := int64(text.Len())
	line := size / 20
	compact := func(b *internalv1.LogBlock) *internalv1.CompactRunLog {
		return &internalv1.CompactRunLog{RunId: run, Block: b}
	}
	whole := fsmtest.Compress(p.View(), run, 0, size)
	before := dump(t, p)
	do(t, p, compact(whole)) // the run has not ended
	if diff := before.Diff(dump(t, p)); diff != "" {
		t.Errorf("compacted while it runs:\n%s", diff)
	}
	end(t, p, run, succeeded)
	ended := getRun(t, p, run)
	if got := slices.Collect(p.View().UncompactedRuns()); len(got) != 1 || got[0].GetRunId() != run {
		t.Errorf("uncompacted runs: got %v, want %s", got, run)
	}
	for name, b := range map[string]*internalv1.LogBlock{
		"no block":              nil,
		"empty":                 {Offset: 0, Size: 0},
		"too short":             {Offset: 0, Size: line - 1},
		"too long":              {Offset: 0, Size: size + 1},
		"not at a block":        {Offset: 1, Size: line},
		"not at the next block": {Offset: line / 2, Size: line / 2},
		"beyond the end":        {Offset: size, Size: line},
		"backwards":             {Offset: line, Size: -line},
	} {
		t.Run(name, func(t *testing.T) {
			refused(t, p, compact(b), fsm.Aborted, fsm.ReasonLogGap)
		})
	}
	same(t, "chunks before", 20, len(p.View().LogBlocks(run)))
	old := p.View()
	do(t, p, compact(fsmtest.Compress(p.View(), run, 0, 5*line)))
	do(t, p, compact(fsmtest.Compress(p.View(), run, 5*line, 19*line)))
	readsFromAnywhere(t, p, run, text.String())
	if r := getRun(t, p, run); r.GetLogCompacted() || len(p.View().LogBlocks(run)) != 3 {
		t.Errorf("in part: compacted %v with %d blocks, want 3", r.GetLogCompacted(), len(p.View().LogBlocks(run)))
	}
	do(t, p, compact(fsmtest.Compress(p.View(), run, 19*line, size)))
	readsFromAnywhere(t, p, run, text.String())
	if n := len(slices.Collect(p.View().UncompactedRuns())); n != 0 {
		t.Errorf("uncompacted runs: got %d, want none", n)
	}
	// Only the storage has changed, and only once.
	ended = proto.CloneOf(ended) // rows are shared
	ended.LogCompacted = true
	same(t, "run", ended, getRun(t, p, run))
	before = dump(t, p)
	do(t, p, compact(whole))
	do(t, p, &internalv1.CompactRunLog{RunId: "run-none", Block: whole})
	if diff := before.Diff(dump(t, p)); diff != "" {
		t.Errorf("compacted again:\n%s", diff)
	}
	if len(old.LogBlocks(run)) != 20 || fsmtest.LogText(old, run) != text.String() {
		t.Error("an older view has changed")
	}
}

// TestCompactManySmallChunks logs chunks of one byte, as a program that prints dots does.
// They are much larger encoded than their text, and must be readable.
func TestCompactManySmallChunks(t *testing.T) {
	p, run, _ := logging(t)
	const size = 64 << 10 // about 7 MiB encoded; the executor compresses up to four times that together
	dots := slices.Repeat([]string{"."}, size)
	for part := range slices.Chunk(dots, fsm.MaxChunks) {
		a := logAppend(run, fsm.OwnLogBytes(getRun(t, p, run)), part...)
		for _, c := range a.GetChunks() {
			c.Ts, c.Step = p.View().Meta().GetNow(), strings.Repeat("s", 64)
		}
		do(t, p, appendOp(a))
	}
	end(t, p, run, succeeded)
	do(t, p, &internalv1.CompactRunLog{RunId: run, Block: fsmtest.Compress(p.View(), run, 0, size)})
	if got := fsmtest.LogText(p.View(), run); got != strings.Join(dots, "") {
		t.Errorf("got %d bytes (%.80q), want %d dots", len(got), got, size)
	}
}

// TestCompactRefusesOtherText checks that recorded bytes cannot be replaced by different
// ones.
func TestCompactRefusesOtherText(t *testing.T) {
	p, run, _ := logging(t)
	do(t, p, appendOp(logAppend(run, 0, "abc")))
	do(t, p, appendOp(logAppend(run, 3, "d", "ef")))
	end(t, p, run, succeeded)
	good := fsmtest.Compress(p.View(), run, 0, 6)
	raw := func(text ...string) []byte {
		b, err := proto.Marshal(&internalv1.LogChunks{Chunks: logAppend(run, 0, text...).GetChunks()})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	for name, b := range map[string]*internalv1.LogBlock{
		"no payload":     {Size: 6},
		"no zstd":        {Size: 6, Codec: internalv1.LogBlock_ZSTD, Payload: []byte("no zstd")},
		"cut":            {Size: 6, Codec: internalv1.LogBlock_ZSTD, Payload: good.GetPayload()[:len(good.GetPayload())-3]},
		"other codec":    {Size: 6, Payload: good.GetPayload()},
		"other text":     {Size: 6, Payload: raw("abcdeF")},
		"shorter":        {Size: 6, Payload: raw("abcde")},
		"other block":    {Size: 3, Payload: raw("def")},
		"too much of it": {Size: 3, Payload: raw("abcdef")},
	} {
		t.Run(name, func(t *testing.T) {
			refused(t, p, &internalv1.CompactRunLog{RunId: run, Block: b}, fsm.InvalidArgument, "LOG_MISMATCH")
		})
	}
	// Chunks may be merged.
	do(t, p, &internalv1.CompactRunLog{RunId: run, Block: &internalv1.LogBlock{Size: 6, Payload: raw("abcdef")}})
	readsFromAnywhere(t, p, run, "abcdef")
	do(t, p, &internalv1.CompactRunLog{RunId: run, Block: good})
}

// TestDamagedLogBlock checks that the reader gets the error, and that the peer continues.
func TestDamagedLogBlock(t *testing.T) {
	msgs := []proto.Message{&internalv1.SnapshotHeader{Format: 1, Meta: &internalv1.Meta{FeatureLevel: 1}}}
	for _, l := range []*internalv1.StoredLog{
		{RunId: "run-1", Block: &internalv1.LogBlock{Offset: 0, Size: 3, Codec: internalv1.LogBlock_ZSTD,
			Payload: []byte("no zstd")}},
		{RunId: "run-1", Block: &internalv1.LogBlock{Offset: 3, Size: 3, Payload: []byte("\x0a\x05\x22\x03def")}},
	} {
		value, err := proto.Marshal(l)
		if err != nil {
			t.Fatal(err)
		}
		msgs = append(msgs, &internalv1.SnapshotRecord{Table: internalv1.SnapshotRecord_RUN_LOGS,
			Key: fmt.Sprintf("run-1/%016x", l.GetBlock().GetOffset()), Value: value})
	}
	p := &fsmtest.Peer{FSM: fsm.New()}
	if err := p.Restore(bytes.NewReader(stream(t, msgs...))); err != nil {
		t.Fatal(err)
	}
	got := strings.Join(chunks(p, "run-1", 0), "")
	if !strings.Contains(got, "log block at 0 is damaged") || !strings.HasSuffix(got, "3:def") {
		t.Errorf("got %q, want a note and the rest", got)
	}
}
