package fsmtest

import (
	"crypto/sha256"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// archiveRun archives an ended run, or seldom one that is active or has changed.
func (g runGenerator) archiveRun(v *fsm.View) proto.Message {
	r := oneOf(g.draw, "run that has ended", slices.Collect(v.WholeRuns()))
	if r == nil || g.rarely("any run") {
		r = g.someRun(v)
	}
	sum := sha256.Sum256([]byte(r.GetRunId()))
	c := &internalv1.ArchiveRun{
		RunId:     r.GetRunId(),
		Revision:  r.GetRevision(),
		Object:    "runs/" + r.GetRunId(),
		SizeBytes: 7,
		Sha256:    sum[:],
	}
	if g.rarely("of another revision") {
		c.Revision++
	}
	return c
}

func (g runGenerator) dropArchivedRun(v *fsm.View) proto.Message {
	r := oneOf(g.draw, "archived run", slices.Collect(v.ArchivedRuns()))
	if r == nil || g.rarely("any run") {
		r = g.someRun(v)
	}
	return &internalv1.DropArchivedRun{RunId: r.GetRunId()}
}
