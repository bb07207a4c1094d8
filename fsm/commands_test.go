package fsm

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/fsm/internal/backup"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// Each operation of the log has one declaration.
func TestCommandsAreDeclared(t *testing.T) {
	var want, got []string
	set := newCommandSet(&backup.Cache{})
	for i := range set.op.Fields().Len() {
		want = append(want, string(set.op.Fields().Get(i).Message().FullName()))
	}
	for _, c := range commandList(&backup.Cache{}) {
		got = append(got, string(c.message))
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("declared commands (-want +got):\n%s", diff)
	}
}

// A fence or a feature level that gets lost lets a command through that peers must refuse.
func TestDeclarations(t *testing.T) {
	wantFenced := []string{
		"AbortRun", "AppendRunLogs", "ArchiveRun", "BeginAttempt", "CheckpointLeases", "CompactRunLog",
		"DropArchivedRun", "DropTokens", "EndAttempt", "ExpireLeases", "NoteDelivery", "NoteDevice", "NoteInstall",
		"NoteProgress", "ObserveConditions", "OpenInstall", "PutSigningKeys", "SweepPools",
	}
	wantLevel2 := []string{"DeleteProvider", "ResetClock", "RetryBmc"}
	var fenced, level2 []string
	for _, c := range commandList(&backup.Cache{}) {
		if c.needsEpoch {
			fenced = append(fenced, string(c.message.Name()))
		}
		switch c.level {
		case Level1:
		case Level2:
			level2 = append(level2, string(c.message.Name()))
		default:
			t.Errorf("%s has feature level %d", c.message, c.level)
		}
	}
	slices.Sort(fenced)
	slices.Sort(level2)
	if diff := cmp.Diff(wantFenced, fenced); diff != "" {
		t.Errorf("fenced commands (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(wantLevel2, level2); diff != "" {
		t.Errorf("commands of level 2 (-want +got):\n%s", diff)
	}
}

func TestLevelOf(t *testing.T) {
	tests := []struct {
		name string
		cmd  *internalv1.Command
		want uint32
	}{
		{"none", &internalv1.Command{}, 0},
		{"first level", &internalv1.Command{Op: &internalv1.Command_StartRun{}}, Level1},
		{"second level", &internalv1.Command{Op: &internalv1.Command_RetryBmc{}}, Level2},
	}
	f := New()
	for _, tt := range tests {
		if got := f.LevelOf(tt.cmd); got != tt.want {
			t.Errorf("%s: got level %d, want %d", tt.name, got, tt.want)
		}
	}
}

// Every fenced command refuses another epoch before it reads anything else, and no other command
// asks for an epoch.
func TestEpochs(t *testing.T) {
	set := newCommandSet(&backup.Cache{})
	for i := range set.op.Fields().Len() {
		field := set.op.Fields().Get(i)
		c := &internalv1.Command{Epoch: 7, FeatureLevel: FeatureLevel}
		c.ProtoReflect().Set(field, c.ProtoReflect().NewField(field))
		declared, _ := set.of(c)
		data, err := proto.Marshal(&internalv1.Entry{Commands: []*internalv1.Command{c}})
		if err != nil {
			t.Fatal(err)
		}
		results := New().Apply(1, 1, data)
		if len(results) != 1 {
			t.Fatalf("%s: got %d results, want 1", declared.message, len(results))
		}
		refused := results[0].Err != nil && results[0].Err.Reason == ReasonStaleEpoch
		if refused != declared.needsEpoch {
			t.Errorf("%s with a stale epoch: got %v, want STALE_EPOCH: %v",
				declared.message, results[0].Err, declared.needsEpoch)
		}
	}
}
