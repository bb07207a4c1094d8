package fsm_test

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/fsm/fsmtest"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// drawn lets rapid choose, so that it can shrink a log that fails.
type drawn struct{ t *rapid.T }

func (d drawn) Choose(what string, n int) int { return rapid.IntRange(0, n-1).Draw(d.t, what) }

// seeded chooses by a seed.
type seeded struct{ *rand.Rand }

func (s seeded) Choose(_ string, n int) int { return s.IntN(n) }

// furnished returns a peer with some machines and plans to start from.
func furnished() *fsmtest.Peer {
	p := &fsmtest.Peer{FSM: fsm.NewGuarded(), Now: fsmtest.NewPeer().Now}
	p.Lead(1)
	p.Do(&internalv1.CreatePlan{Plan: fsm.DefaultPlans()[2], BuiltIn: true}) // plan/reboot
	p.Do(&internalv1.CreatePlan{Plan: planOf("plan-0", "repave", "join")})
	p.Do(registerOp("m-0", nil))
	p.Do(registerOp("m-1", nil))
	return p
}

// apply applies one command in an entry, and returns the violations.
func apply(p *fsmtest.Peer, c *internalv1.Command) (fsm.Result, error) {
	view := p.View()
	before, err := fsmtest.DumpOf(p.FSM)
	if err != nil {
		return fsm.Result{}, err
	}
	r := p.Propose(c)[0]
	after, err := fsmtest.DumpOf(p.FSM)
	if err != nil {
		return r, err
	}
	diff := before.Diff(after)
	if changed := before.WithoutAudit().Diff(after.WithoutAudit()); r.Err != nil && changed != "" {
		return r, fmt.Errorf("refused with %s, and yet:\n%s", r.Err.Reason, changed)
	}
	for line := range strings.Lines(diff) {
		// Events and history are immutable. (No log here is long enough for events to be
		// dropped.)
		if (strings.HasPrefix(line, "RUN_EVENTS/") || strings.HasPrefix(line, "HISTORY/") ||
			strings.HasPrefix(line, "AUDIT/")) && !strings.Contains(line, "is new") {
			return r, fmt.Errorf("written over: %s", line)
		}
	}
	if err := fsmtest.CheckStep(view, p.View()); err != nil {
		return r, err
	}
	return r, fsmtest.Check(p.View())
}

func TestRandomLogsKeepTheInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, g := furnished(), &fsmtest.Generator{Chooser: drawn{t}}
		named := map[string]string{} // first run by request
		for range rapid.IntRange(1, 60).Draw(t, "length") {
			c := g.Next(p.View())
			r, err := apply(p, c)
			if err != nil {
				t.Fatalf("entry %d, %v (answer %v): %v", p.Index, c, r.Err, err)
			}
			run, ok := r.Value.(*holdfastv1.Run)
			if s := c.GetStartRun(); s != nil && ok {
				key := s.GetMachineId() + "/" + s.GetRequestId()
				if first, again := named[key]; again && first != run.GetRunId() {
					t.Fatalf("entry %d: request %s names run %s, named %s before", p.Index, key, run.GetRunId(), first)
				}
				named[key] = run.GetRunId()
			}
		}
	})
}

// TestRandomLogsAreDeterministic feeds one log to three peers. One only applies it, one is
// snapshotted and restored at random points, and one is read all the time.
func TestRandomLogsAreDeterministic(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		plain, g := furnished(), &fsmtest.Generator{Chooser: drawn{t}}
		restored, watched := furnished(), furnished()
		for range rapid.IntRange(1, 25).Draw(t, "length") {
			var cmds []*internalv1.Command
			for range rapid.IntRange(1, 4).Draw(t, "commands in the entry") {
				cmds = append(cmds, g.Next(plain.View()))
			}
			index, term, entry := plain.Index+1, plain.Term, fsmtest.Encode(cmds...)
			var answers []string
			for _, p := range []*fsmtest.Peer{plain, restored, watched} {
				answers = append(answers, fmt.Sprint(p.Apply(index, term, entry)))
				p.Index++
			}
			watched.View()
			if len(slices.Compact(answers)) != 1 {
				t.Fatalf("entry %d: peers answer differently:\n%s", index, strings.Join(answers, "\n"))
			}
			if rapid.IntRange(0, 4).Draw(t, "restore") == 0 {
				restored = through(t, restored)
			}
		}
		want, _ := fsmtest.Bytes(plain.FSM)
		for name, p := range map[string]*fsmtest.Peer{"restored": restored, "watched": watched} {
			if got, _ := fsmtest.Bytes(p.FSM); !bytes.Equal(got, want) {
				a, _ := fsmtest.DumpOf(plain.FSM)
				b, _ := fsmtest.DumpOf(p.FSM)
				t.Fatalf("%s: the state differs:\n%s", name, a.Diff(b))
			}
		}
	})
}

// through returns a new peer that was restored from another's snapshot.
func through(t *rapid.T, p *fsmtest.Peer) *fsmtest.Peer {
	b, err := fsmtest.Bytes(p.FSM)
	if err != nil {
		t.Fatal(err)
	}
	q := &fsmtest.Peer{FSM: fsm.NewGuarded(), Index: p.Index, Term: p.Term, Now: p.Now}
	q.Do(registerOp("m-left-over", nil)) // a restore replaces the previous state
	q.Index = p.Index
	if err := q.Restore(bytes.NewReader(b)); err != nil {
		t.Fatal(err)
	}
	return q
}

// TestGeneratorReachesEverything checks the property tests: at least half of the commands are
// accepted, each operation at least once, and every refusal of the run state machine occurs. Some
// are rare, and another command changes the commands of each seed, so the test has no fixed number
// of seeds.
func TestGeneratorReachesEverything(t *testing.T) {
	missing := map[string]bool{}
	for what, names := range map[string][]string{
		"accepted": operations(),
		"refused": {fsm.ReasonActiveRun, fsm.ReasonAttemptMismatch, fsm.ReasonCancelRequested, fsm.ReasonIDTaken,
			fsm.ReasonLogGap, fsm.ReasonDeviceNoted, fsm.ReasonProviderChanged, fsm.ReasonRequestConflict,
			fsm.ReasonRunFinished, fsm.ReasonStaleEpoch, "MACHINE_CONFLICT", "PHASE_TRANSITION", "PLAN_REFERENCED",
			"MACHINE_RETIRED", "CAPABILITY_MISSING", "INVALID_FIELD"},
		"run":  {"PENDING", "RUNNING", "SUCCEEDED", "FAILED", "CANCELED", "compacted", "retried", "adopted"},
		"node": {"INSTALLING", "INSTALL_FAILED", "INSTALLED", "ACTIVE", "RETIRED"},
	} {
		for _, name := range names {
			missing[what+" "+name] = true
		}
	}
	total, accepted := 0, 0
	for seed := uint64(0); seed < 2000 && len(missing) > 0; seed++ {
		p, g := furnished(), &fsmtest.Generator{Chooser: seeded{rand.New(rand.NewPCG(seed, 3))}}
		for range 150 {
			c := g.Next(p.View())
			name := string(c.ProtoReflect().WhichOneof(c.ProtoReflect().Descriptor().Oneofs().ByName("op")).Name())
			total++
			if r := p.Propose(c)[0]; r.Err != nil {
				delete(missing, "refused "+r.Err.Reason)
			} else {
				accepted++
				delete(missing, "accepted "+name)
			}
		}
		if err := fsmtest.Check(p.View()); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		for _, r := range p.View().Runs("") {
			delete(missing, "run "+r.GetPhase().String())
			if r.GetLogCompacted() {
				delete(missing, "run compacted")
			}
			for _, s := range r.GetSteps() {
				if s.GetRetryCount() > 0 {
					delete(missing, "run retried")
				}
				if a := s.GetAttempts(); len(a) > 0 && len(a[0].GetEpochs()) > 1 {
					delete(missing, "run adopted")
				}
			}
		}
		for m := range p.View().Machines("") {
			for e := range p.View().History(m.GetMachineId(), 0) {
				if e.GetFacet() == "node" {
					delete(missing, "node "+e.GetTo())
				}
			}
		}
	}
	if accepted*2 < total {
		t.Errorf("%d of %d commands were accepted, want at least half", accepted, total)
	}
	if len(missing) > 0 {
		t.Errorf("%d commands never reached: %v", total, slices.Sorted(maps.Keys(missing)))
	}
}

// operations returns the names of all operations but restores, which TestRestoreProperty covers.
func operations() (names []string) {
	fields := (&internalv1.Command{}).ProtoReflect().Descriptor().Oneofs().ByName("op").Fields()
	for i := range fields.Len() {
		if name := string(fields.Get(i).Name()); name != "restore_backup" {
			names = append(names, name)
		}
	}
	return names
}
