package fsm

import (
	"fmt"
	"os"
	"slices"
	"strings"
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
	const golden = "testdata/commands.golden"
	var got strings.Builder
	for _, c := range commandList(&backup.Cache{}) {
		fmt.Fprintf(&got, "%s level=%d fenced=%t\n", c.message.Name(), c.level, c.needsEpoch)
		if c.level > FeatureLevel {
			t.Errorf("%s has feature level %d, above that of this build", c.message, c.level)
		}
	}
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(golden, []byte(got.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Errorf("declarations (-want +got; UPDATE_GOLDEN=1 writes %s):\n%s", golden, diff)
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
