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

// testLevel is a feature level that only tests have.
const testLevel = FeatureLevel + 1

// newAtTestLevel returns an FSM of a build that understands testLevel, which introduces RetryBmc.
func newAtTestLevel() *FSM {
	f := New()
	f.highest = testLevel
	name := (&internalv1.RetryBmc{}).ProtoReflect().Descriptor().FullName()
	f.commands.byMessage[name] = f.commands.byMessage[name].since(testLevel)
	return f
}

// A build that knows a level raises the cluster to it and applies its commands. A build that does
// not know it halts at the raise, and at a command of that level, with the state unchanged.
func TestRaiseToNewLevel(t *testing.T) {
	entry := func(c *internalv1.Command) []byte {
		data, err := proto.Marshal(&internalv1.Entry{Commands: []*internalv1.Command{c}})
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	raise := &internalv1.Command{FeatureLevel: Level1, Op: &internalv1.Command_RaiseFeatureLevel{
		RaiseFeatureLevel: &internalv1.RaiseFeatureLevel{Level: testLevel}}}
	noOp := &internalv1.Command{FeatureLevel: testLevel, Op: &internalv1.Command_NoOp{NoOp: &internalv1.NoOp{}}}
	f := newAtTestLevel()
	if f.View().Has(testLevel) {
		t.Error("a new state has the level")
	}
	for i, c := range []*internalv1.Command{raise, noOp} {
		if rs := f.Apply(uint64(i)+1, 1, entry(c)); len(rs) != 1 || rs[0].Err != nil || f.HaltError() != nil {
			t.Fatalf("command %d: got %v, halt error %v, want it applied", i, rs, f.HaltError())
		}
	}
	if !f.View().Has(testLevel) {
		t.Errorf("got level %d, want %d", f.View().Meta().GetFeatureLevel(), testLevel)
	}
	for _, c := range []*internalv1.Command{raise, noOp} {
		old := New()
		if rs := old.Apply(1, 1, entry(c)); rs != nil || old.HaltError() == nil || old.Applied() != 0 {
			t.Errorf("a build without the level: got %v, halt error %v, applied %d, want a halt at 0",
				rs, old.HaltError(), old.Applied())
		}
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
		{"a level of a test", &internalv1.Command{Op: &internalv1.Command_RetryBmc{}}, testLevel},
	}
	f := newAtTestLevel()
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
