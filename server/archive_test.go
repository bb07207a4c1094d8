package server

import (
	"context"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/holdfast-metal/holdfast/internal/archive"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/server/internal/nodetest"
)

// shelf is an in-memory archive.
type shelf map[string][]byte

func (s shelf) Get(_ context.Context, name string) ([]byte, error) {
	if data, ok := s[name]; ok {
		return data, nil
	}
	return nil, archive.ErrNotFound
}

// TestArchivedRun checks that an archived run reads as before, from any offset of its
// log, and that a lost or damaged archive object is reported.
func TestArchivedRun(t *testing.T) {
	n, books := nodetest.New(), shelf{}
	_, c := serve(t, n, Config{Archive: books})
	_, bare := serve(t, n, Config{})
	n.Machine(t, "m-1")
	n.Start(t, "m-1", "run-1", "")
	n.Begin(t, "run-1", 1)
	n.Log(t, "run-1", "power off\n")
	n.Log(t, "run-1", "power on\n")
	n.End(t, "run-1", 1, holdfastv1.Attempt_SUCCEEDED)
	get := func(c *clients) *holdfastv1.Run {
		t.Helper()
		r, err := c.GetRun(testCtx(t), &holdfastv1.GetRunRequest{RunId: "run-1"})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	before := get(c)
	text := readLog(t, logs(t, c, &holdfastv1.StreamRunLogsRequest{RunId: "run-1"}), 0, -1)

	whole, err := n.View(testCtx(t))
	if err != nil {
		t.Fatal(err)
	}
	o, err := archive.Seal(before, whole.LogBlocks("run-1"))
	if err != nil {
		t.Fatal(err)
	}
	books[o.Name] = o.Data
	n.Do(t, &internalv1.ArchiveRun{RunId: "run-1", Revision: before.GetRevision(), Object: o.Name,
		SizeBytes: int64(len(o.Data)), Sha256: o.SHA256})

	if r := get(c); len(r.GetSteps()) != len(before.GetSteps()) || r.GetArchive().GetNote() != "" ||
		r.GetPhase() != before.GetPhase() {
		t.Errorf("archived: got %v, want %v", r, before)
	}
	for offset := range len(text) + 1 {
		if got := readLog(t, logs(t, c, &holdfastv1.StreamRunLogsRequest{RunId: "run-1", Offset: int64(offset)}),
			int64(offset), -1); got != text[offset:] {
			t.Fatalf("log from %d: got %q, want %q", offset, got, text[offset:])
		}
	}
	missing := func(c *clients, want string) {
		t.Helper()
		if r := get(c); len(r.GetSteps()) != 0 || !strings.Contains(r.GetArchive().GetNote(), want) {
			t.Errorf("got %d steps and the note %q, want none and %q", len(r.GetSteps()), r.GetArchive().GetNote(), want)
		}
		_, err := logs(t, c, &holdfastv1.StreamRunLogsRequest{RunId: "run-1"}).Recv()
		wantError(t, err, codes.FailedPrecondition, "LOG_ARCHIVED")
	}
	missing(bare, "no archive configured")
	books[o.Name] = append([]byte{o.Data[0] ^ 1}, o.Data[1:]...)
	missing(c, "SHA-256")
	delete(books, o.Name)
	missing(c, "no such object")
	n.Do(t, &internalv1.DropArchivedRun{RunId: "run-1"})
	missing(c, "archive.keep")
}
