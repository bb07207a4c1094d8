package fsm_test

import (
	"crypto/sha256"
	"slices"
	"testing"

	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// TestArchiveRun checks that steps and log are removed, and that a repeated request still
// finds its run.
func TestArchiveRun(t *testing.T) {
	p, run := running(t)
	sum := sha256.Sum256([]byte("the object"))
	archive := func(change func(*internalv1.ArchiveRun)) *internalv1.ArchiveRun {
		c := &internalv1.ArchiveRun{RunId: run, Revision: getRun(t, p, run).GetRevision(), Object: "runs/x", SizeBytes: 10,
			Sha256: sum[:]}
		if change != nil {
			change(c)
		}
		return c
	}
	do(t, p, appendOp(logAppend(run, 0, "hello\n")))
	refused(t, p, archive(nil), fsm.FailedPrecondition, fsm.ReasonActiveRun)
	refused(t, p, &internalv1.DropArchivedRun{RunId: run}, fsm.FailedPrecondition, "NOT_ARCHIVED")
	finish(t, p, run, succeeded)

	refused(t, p, archive(func(c *internalv1.ArchiveRun) { c.RunId = "run-none" }), fsm.NotFound, "RUN_NOT_FOUND")
	refused(t, p, archive(func(c *internalv1.ArchiveRun) { c.Revision-- }), fsm.Aborted, "RUN_CHANGED")
	refused(t, p, archive(func(c *internalv1.ArchiveRun) { c.Sha256 = c.GetSha256()[1:] }), fsm.InvalidArgument,
		"INVALID_FIELD")
	refused(t, p, archive(func(c *internalv1.ArchiveRun) { c.Object = "" }), fsm.InvalidArgument, "INVALID_FIELD")

	want, events := getRun(t, p, run), p.View().LastRunEvent()
	compact := &internalv1.CompactRunLog{RunId: run, Block: p.View().LogBlocks(run)[0]}
	again := archive(nil)
	do(t, p, again)
	want.Steps, want.Revision = nil, p.View().Meta().GetAppliedIndex()
	want.Archive = &holdfastv1.RunArchive{Object: "runs/x", SizeBytes: 10, Sha256: sum[:],
		ArchivedAt: p.View().Meta().GetNow()}
	same(t, "run", want, getRun(t, p, run))
	if n := len(p.View().LogBlocks(run)); n != 0 || p.View().LastRunEvent() != events {
		t.Errorf("%d blocks of log are left, events went from %d to %d", n, events, p.View().LastRunEvent())
	}
	same(t, "a request that is repeated", want, start(t, p, "m", "request-1", "", "plan/x"))
	do(t, p, again) // by the next leader: no effect
	do(t, p, compact)
	same(t, "run", want, getRun(t, p, run))
	if whole, archived := len(slices.Collect(p.View().WholeRuns())),
		len(slices.Collect(p.View().ArchivedRuns())); whole != 0 || archived != 1 {
		t.Errorf("got %d runs to archive, %d archived, want 0 and 1", whole, archived)
	}

	do(t, p, &internalv1.DropArchivedRun{RunId: run})
	want.Archive.DroppedAt, want.Revision = p.View().Meta().GetNow(), p.View().Meta().GetAppliedIndex()
	do(t, p, &internalv1.DropArchivedRun{RunId: run})
	same(t, "dropped", want, getRun(t, p, run))
	if archived := len(slices.Collect(p.View().ArchivedRuns())); archived != 0 {
		t.Errorf("got %d archived runs, want none", archived)
	}
}
