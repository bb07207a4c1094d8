package fsm

import (
	"bytes"
	"runtime"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/fsm/internal/core"
	"github.com/holdfast-metal/holdfast/fsm/internal/schema"
	"github.com/holdfast-metal/holdfast/fsm/internal/table"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// TestRestoreReadsOnce checks that a file that was read to check a restore is not read again
// while the caller keeps it. It is read again otherwise, or if another file was staged.
func TestRestoreReadsOnce(t *testing.T) {
	stage := func(f *FSM, id string) *internalv1.RestoreBackup {
		from := core.NewState()
		from.Machines.Put(&holdfastv1.Machine{MachineId: id})
		var file bytes.Buffer
		if err := (&Snapshot{state: from}).WriteBackup(&file,
			BackupInfo{TakenAt: timestamppb.New(timestamppb.Now().AsTime())}); err != nil {
			t.Fatal(err)
		}
		f.state.Staged = table.New(schema.Staged())
		f.state.Staged.Put(&internalv1.StagedChunk{RestoreId: "r", Data: file.Bytes()})
		f.publish()
		return &internalv1.RestoreBackup{RestoreId: "r", Chunks: 1, OtherCluster: true}
	}
	first := func(s *core.State) (string, *table.Record) {
		for key := range s.Machines.Keys() {
			r, _ := s.Machines.Row(key)
			return key, r
		}
		return "", nil
	}
	restore := func(f *FSM, c *internalv1.RestoreBackup) (string, *table.Record) {
		data, err := proto.Marshal(&internalv1.Entry{Commands: []*internalv1.Command{{FeatureLevel: 1,
			Op: &internalv1.Command_RestoreBackup{RestoreBackup: c}}}})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range f.Apply(f.Applied()+1, 1, data) {
			if r.Err != nil {
				t.Fatal(r.Err)
			}
		}
		return first(f.state)
	}
	for _, tt := range []struct {
		name string
		then string // staged after the check; "" for nothing
		keep bool
		same bool
	}{
		{"kept", "", true, true},
		{"not kept", "", false, false},
		{"another file since", "m-2", true, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := New()
			c := stage(f, "m-1")
			b, refusal := f.View().CheckRestore(c)
			if refusal != nil {
				t.Fatal(refusal)
			}
			_, had := first(b.file.State)
			want := "m-1"
			if tt.then != "" {
				want = tt.then
				stage(f, tt.then)
			}
			if !tt.keep {
				b = nil
				runtime.GC()
				runtime.GC()
			}
			key, got := restore(f, c)
			if key != want || (got == had) != tt.same {
				t.Errorf("got the row %q, the same one: %v; want %q and %v", key, got == had, want, tt.same)
			}
			runtime.KeepAlive(b)
		})
	}
}
