package fsm_test

import (
	"bytes"
	"fmt"
	"regexp"
	"testing"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/fsm/fsmtest"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// manyPages returns a state whose machines need several pages.
func manyPages(t *testing.T) *fsmtest.Peer {
	t.Helper()
	p := fsmtest.NewPeer()
	var cmds []*internalv1.Command
	for i := range 1000 {
		cmds = append(cmds, fsmtest.Command(&internalv1.RegisterMachine{Machine: &holdfastv1.Machine{
			MachineId: fmt.Sprintf("m-%d", i),
			Labels:    map[string]string{"rack": fmt.Sprint("r", i), "row": fmt.Sprint(i / 7)}}}))
	}
	for _, r := range p.Propose(cmds...) {
		if r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	return p
}

// TestFileFollowsItsState writes a file of a state, of a changed one, and of one that was read
// back. Each has the same state as the snapshot at that time, although pages are kept.
func TestFileFollowsItsState(t *testing.T) {
	p := manyPages(t)
	for _, machine := range []string{"m-500", "m-1", "m-999"} {
		file := backup(t, p.View())
		b, err := fsm.ReadBackup(bytes.NewReader(file))
		if err != nil {
			t.Fatal(err)
		}
		var got bytes.Buffer
		if _, err := b.View().Snapshot().WriteTo(&got); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got.Bytes(), snapshotBytes(t, p.FSM)) {
			t.Errorf("before %s is deleted: the file has another state than the snapshot", machine)
		}
		if again := backup(t, b.View()); !bytes.Equal(again, backup(t, b.View())) {
			t.Error("two files of one state differ")
		}
		do(t, p, &internalv1.DeleteMachine{MachineId: machine})
	}
}

// TestDamageNamesItsTable checks that the error of a damaged page has its place and its table.
func TestDamageNamesItsTable(t *testing.T) {
	file := backup(t, manyPages(t).View())
	const tables = `(?i:machines|plans|history|events)`
	names := regexp.MustCompile(`record \d+, after one of ` + tables + `:|record ".*" of ` + tables)
	for _, at := range []int{len(file) / 4, len(file) / 2, len(file) * 3 / 4} {
		bad := bytes.Clone(file)
		bad[at] ^= 0x10
		if _, err := fsm.ReadBackup(bytes.NewReader(bad)); err == nil || !names.MatchString(err.Error()) {
			t.Errorf("byte %d of %d flipped: got %v, want a record and a table", at, len(file), err)
		}
	}
}
