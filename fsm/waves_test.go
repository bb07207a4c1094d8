package fsm_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	"pgregory.net/rapid"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/fsm/fsmtest"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// waveLab has machines m-0 to m-(n-1) and wave w on all of them, with plan/reboot.
func waveLab(t *testing.T, n int, parallel, failures int32) *fsmtest.Peer {
	t.Helper()
	p := fsmtest.NewPeer()
	op := &internalv1.StartWave{Wave: &holdfastv1.Wave{WaveId: "w", Type: "reboot", MaxParallel: parallel,
		MaxFailures: failures}}
	for i := range n {
		id := fmt.Sprint("m-", i)
		register(t, p, id, ready)
		op.MachineIds = append(op.MachineIds, id)
	}
	do(t, p, op)
	return p
}

func advance(machine string) *internalv1.AdvanceWave {
	return &internalv1.AdvanceWave{WaveId: "w", Start: &internalv1.StartRun{RunId: "run-" + machine, MachineId: machine,
		DefaultTimeoutSeconds: 60}}
}

func refusal(machine string) *internalv1.AdvanceWave {
	c := advance(machine)
	c.Refusal, c.RefusalReason = "it has no BMC", "CAPABILITY_MISSING"
	return c
}

// counts returns the counts of wave w: waiting, active, succeeded, failed, canceled, refused, not
// started.
func counts(t *testing.T, p *fsmtest.Peer) (holdfastv1.Wave_Phase, [7]int32) {
	t.Helper()
	w, ok := p.View().Wave("w")
	if !ok {
		t.Fatal("wave w is gone")
	}
	return w.GetPhase(), [7]int32{w.GetWaiting(), w.GetActive(), w.GetSucceeded(), w.GetFailed(), w.GetCanceled(),
		w.GetRefused(), w.GetNotStarted()}
}

func TestWave(t *testing.T) {
	ends := func(machine string, phase holdfastv1.Attempt_Outcome) func(*testing.T, *fsmtest.Peer) {
		return func(t *testing.T, p *fsmtest.Peer) {
			finish(t, p, "run-"+machine, phase)
		}
	}
	starts := func(machine string) func(*testing.T, *fsmtest.Peer) {
		return func(t *testing.T, p *fsmtest.Peer) { do(t, p, advance(machine)) }
	}
	type event = func(*testing.T, *fsmtest.Peer)
	for _, tt := range []struct {
		name     string
		failures int32
		events   []event
		phase    holdfastv1.Wave_Phase
		want     [7]int32
	}{
		{"new", 0, nil, holdfastv1.Wave_RUNNING, [7]int32{3, 0, 0, 0, 0, 0, 0}},
		{"a start", 0, []event{starts("m-0")}, holdfastv1.Wave_RUNNING, [7]int32{2, 1, 0, 0, 0, 0, 0}},
		{"a start twice", 0, []event{starts("m-0"), starts("m-0")}, holdfastv1.Wave_RUNNING, [7]int32{2, 1, 0, 0, 0, 0, 0}},
		{"a start after the end", 0, []event{starts("m-0"), ends("m-0", succeeded), starts("m-0")}, holdfastv1.Wave_RUNNING,
			[7]int32{2, 0, 1, 0, 0, 0, 0}},
		{"success", 0, []event{starts("m-0"), starts("m-1"), ends("m-1", succeeded), starts("m-2"), ends("m-0", succeeded),
			ends("m-2", succeeded)}, holdfastv1.Wave_SUCCEEDED, [7]int32{0, 0, 3, 0, 0, 0, 0}},
		{"a failure above the limit", 0, []event{starts("m-0"), starts("m-1"), ends("m-0", failed)},
			holdfastv1.Wave_STOPPING, [7]int32{0, 1, 0, 1, 0, 0, 1}},
		{"stopped", 0, []event{starts("m-0"), starts("m-1"), ends("m-0", failed), ends("m-1", succeeded)},
			holdfastv1.Wave_STOPPED, [7]int32{0, 0, 1, 1, 0, 0, 1}},
		{"an allowed failure", 1, []event{starts("m-0"), ends("m-0", failed), starts("m-1"), starts("m-2"),
			ends("m-1", succeeded), ends("m-2", succeeded)}, holdfastv1.Wave_FAILED, [7]int32{0, 0, 2, 1, 0, 0, 0}},
		{"a refusal above the limit", 0, []event{func(t *testing.T, p *fsmtest.Peer) { do(t, p, refusal("m-0")) }},
			holdfastv1.Wave_STOPPED, [7]int32{0, 0, 0, 0, 0, 1, 2}},
		{"a canceled run counts as a failure", 0, []event{starts("m-0"),
			func(t *testing.T, p *fsmtest.Peer) { do(t, p, &internalv1.CancelRun{RunId: "run-m-0"}) }},
			holdfastv1.Wave_STOPPED, [7]int32{0, 0, 0, 0, 1, 0, 2}},
		{"canceled", 0, []event{starts("m-0"), func(t *testing.T, p *fsmtest.Peer) {
			do(t, p, &internalv1.CancelWave{WaveId: "w", Reason: "wrong image"})
		}}, holdfastv1.Wave_CANCELED, [7]int32{0, 0, 0, 0, 1, 0, 2}},
		{"canceled while a run is running", 0, []event{starts("m-0"), func(t *testing.T, p *fsmtest.Peer) {
			begin(t, p, "run-m-0")
			do(t, p, &internalv1.CancelWave{WaveId: "w"})
			if got := getRun(t, p, "run-m-0"); got.GetCancelRequestedAt() == nil {
				t.Error("no cancel was requested for the active run")
			}
		}}, holdfastv1.Wave_STOPPING, [7]int32{0, 1, 0, 0, 0, 0, 2}},
		{"canceled without its runs", 0, []event{starts("m-0"), func(t *testing.T, p *fsmtest.Peer) {
			do(t, p, &internalv1.CancelWave{WaveId: "w", KeepRuns: true})
		}, ends("m-0", succeeded)}, holdfastv1.Wave_CANCELED, [7]int32{0, 0, 1, 0, 0, 0, 2}},
		{"the cluster is recovered", 1, []event{starts("m-0"), func(t *testing.T, p *fsmtest.Peer) {
			if _, err := p.Recover("c2", "majority lost"); err != nil {
				t.Fatal(err)
			}
		}}, holdfastv1.Wave_CANCELED, [7]int32{0, 0, 0, 1, 0, 0, 2}},
		{"a snapshot is restored", 1, []event{starts("m-0"), func(t *testing.T, p *fsmtest.Peer) {
			if r := p.RestoreFile(backup(t, p.View()), 1000, &internalv1.RestoreBackup{RestoreId: "r",
				AbandonRuns: true}); r.Err != nil {
				t.Fatal(r.Err)
			}
		}}, holdfastv1.Wave_CANCELED, [7]int32{0, 0, 0, 1, 0, 0, 2}},
		{"another run of the machine does not count", 0, []event{starts("m-0"), ends("m-0", succeeded),
			func(t *testing.T, p *fsmtest.Peer) {
				start(t, p, "m-0", "other", "reboot", "")
				do(t, p, &internalv1.CancelRun{RunId: "run-other"})
			}}, holdfastv1.Wave_RUNNING, [7]int32{2, 0, 1, 0, 0, 0, 0}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := waveLab(t, 3, 2, tt.failures)
			for _, e := range tt.events {
				e(t, p)
			}
			phase, got := counts(t, p)
			if phase != tt.phase || got != tt.want {
				t.Errorf("got %s with %v, want %s with %v (waiting, active, succeeded, failed, canceled, refused, not started)",
					phase, got, tt.phase, tt.want)
			}
		})
	}
}

// A wave names the machine that stopped it, and shows none as waiting once it starts no more.
func TestWaveStops(t *testing.T) {
	fails := func(id, run string, state holdfastv1.WaveMachine_State, reason, text string) *holdfastv1.WaveMachine {
		return &holdfastv1.WaveMachine{MachineId: id, RunId: run, State: state, Reason: reason, Error: text}
	}
	states := func(p *fsmtest.Peer) (all []string) {
		for m := range p.View().WaveMachines("w") {
			all = append(all, m.GetMachineId()+" "+m.GetState().String())
		}
		return all
	}
	for _, tt := range []struct {
		name     string
		failures int32
		do       func(p *fsmtest.Peer)
		want     *holdfastv1.WaveMachine
		machines []string
	}{
		{"a failed run", 0, func(p *fsmtest.Peer) { finish(t, p, "run-m-0", failed) },
			fails("m-0", "run-m-0", holdfastv1.WaveMachine_FAILED, "StepFailed", "no answer from 10.0.0.9"),
			[]string{"m-0 FAILED", "m-1 ACTIVE", "m-2 NOT_STARTED", "m-3 NOT_STARTED"}},
		{"a later failure hides nothing", 0, func(p *fsmtest.Peer) {
			finish(t, p, "run-m-0", failed)
			do(t, p, &internalv1.CancelRun{RunId: "run-m-1"})
		}, fails("m-0", "run-m-0", holdfastv1.WaveMachine_FAILED, "StepFailed", "no answer from 10.0.0.9"),
			[]string{"m-0 FAILED", "m-1 CANCELED", "m-2 NOT_STARTED", "m-3 NOT_STARTED"}},
		{"a canceled run", 0, func(p *fsmtest.Peer) { do(t, p, &internalv1.CancelRun{RunId: "run-m-0", Reason: "no"}) },
			fails("m-0", "run-m-0", holdfastv1.WaveMachine_CANCELED, "Canceled", "canceled: no"),
			[]string{"m-0 CANCELED", "m-1 ACTIVE", "m-2 NOT_STARTED", "m-3 NOT_STARTED"}},
		{"the second of two", 1, func(p *fsmtest.Peer) {
			finish(t, p, "run-m-0", failed)
			do(t, p, refusal("m-2"))
		}, fails("m-2", "", holdfastv1.WaveMachine_REFUSED, "CAPABILITY_MISSING", "it has no BMC"),
			[]string{"m-0 FAILED", "m-1 ACTIVE", "m-2 REFUSED", "m-3 NOT_STARTED"}},
		{"an allowed one", 1, func(p *fsmtest.Peer) { finish(t, p, "run-m-0", failed) },
			fails("m-0", "run-m-0", holdfastv1.WaveMachine_FAILED, "StepFailed", "no answer from 10.0.0.9"),
			[]string{"m-0 FAILED", "m-1 ACTIVE", "m-2 WAITING", "m-3 WAITING"}},
		{"a cancel is no failure", 0, func(p *fsmtest.Peer) { do(t, p, &internalv1.CancelWave{WaveId: "w"}) },
			nil, []string{"m-0 CANCELED", "m-1 CANCELED", "m-2 NOT_STARTED", "m-3 NOT_STARTED"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := waveLab(t, 4, 2, tt.failures)
			do(t, p, advance("m-0"))
			do(t, p, advance("m-1"))
			tt.do(p)
			w, _ := p.View().Wave("w")
			same(t, "last failure", tt.want, w.GetLastFailure())
			if diff := cmp.Diff(tt.machines, states(p)); diff != "" {
				t.Errorf("machines (-want +got):\n%s", diff)
			}
			if m, _ := p.View().WaveMachine("w", "m-3"); "m-3 "+m.GetState().String() != tt.machines[3] {
				t.Errorf("m-3 alone: got %s, want %s", m.GetState(), tt.machines[3])
			}
			if err := fsmtest.Check(p.View()); err != nil {
				t.Error(err)
			}
		})
	}
}

// A tenant that starts many waves leaves room for those of others, and for their records.
func TestWavesOfTenants(t *testing.T) {
	p := fsmtest.NewPeer()
	for _, pool := range []string{"a", "b"} {
		do(t, p, &internalv1.RegisterMachine{Machine: inPool("m-"+pool, pool)})
	}
	wave := func(id, pool string) *internalv1.StartWave {
		return &internalv1.StartWave{MachineIds: []string{"m-" + pool}, Wave: &holdfastv1.Wave{WaveId: id, Type: "REBOOT"}}
	}
	wantAnswer(t, "the wave of b", from(p, operator("b"), wave("of-b", "b")), 0, "")
	do(t, p, &internalv1.CancelWave{WaveId: "of-b"})
	for i := range 250 {
		id := fmt.Sprint("ended-", i)
		wantAnswer(t, id, from(p, operator("a"), wave(id, "a")), 0, "")
		do(t, p, &internalv1.CancelWave{WaveId: id})
	}
	if _, kept := p.View().Wave("of-b"); !kept || p.View().Sizes()["waves"] != 41 {
		t.Errorf("%d waves are kept, that of b: %t; want 41, and that of b", p.View().Sizes()["waves"], kept)
	}
	for i := range 20 {
		id := fmt.Sprint("active-", i)
		wantAnswer(t, id, from(p, operator("a"), wave(id, "a")), 0, "")
	}
	wantAnswer(t, "one more", from(p, operator("a"), wave("more", "a")), fsm.FailedPrecondition, "TOO_MANY_WAVES")
	wantAnswer(t, "another tenant", from(p, operator("b"), wave("more", "b")), 0, "")
	wantAnswer(t, "an operator of all pools", from(p, operator(), wave("all", "a")), 0, "")
}

func TestWaveRefusals(t *testing.T) {
	p := waveLab(t, 4, 2, 0)
	start := func(change func(*internalv1.StartWave)) *internalv1.StartWave {
		c := &internalv1.StartWave{MachineIds: []string{"m-0"}, Wave: &holdfastv1.Wave{WaveId: "v", Type: "REBOOT"}}
		change(c)
		return c
	}
	var many []string
	for i := range fsm.MaxWaveMachines + 1 {
		many = append(many, fmt.Sprint("x-", i))
	}
	for _, tt := range []struct {
		op     *internalv1.StartWave
		code   fsm.Code
		reason string
	}{
		{start(func(c *internalv1.StartWave) { c.Wave.WaveId = "a b" }), fsm.InvalidArgument, "INVALID_FIELD"},
		{start(func(c *internalv1.StartWave) { c.MachineIds = nil }), fsm.InvalidArgument, "INVALID_FIELD"},
		{start(func(c *internalv1.StartWave) { c.MachineIds = many }), fsm.InvalidArgument, "INVALID_FIELD"},
		{start(func(c *internalv1.StartWave) { c.MachineIds = []string{"m-0", "m-0"} }), fsm.InvalidArgument,
			"INVALID_FIELD"},
		{start(func(c *internalv1.StartWave) { c.Wave.MaxParallel = 1001 }), fsm.InvalidArgument, "INVALID_FIELD"},
		{start(func(c *internalv1.StartWave) { c.Wave.MaxFailures = -1 }), fsm.InvalidArgument, "INVALID_FIELD"},
		{start(func(c *internalv1.StartWave) { c.Wave.Type = "typo" }), fsm.InvalidArgument, "INVALID_FIELD"},
		{start(func(c *internalv1.StartWave) { c.Wave.PlanId = "none" }), fsm.NotFound, "PLAN_NOT_FOUND"},
		{start(func(c *internalv1.StartWave) { c.MachineIds = []string{"m-9"} }), fsm.NotFound, "MACHINE_NOT_FOUND"},
		{start(func(c *internalv1.StartWave) { c.Wave.WaveId = "w" }), fsm.AlreadyExists, fsm.ReasonRequestConflict},
	} {
		refused(t, p, tt.op, tt.code, tt.reason)
	}
	refused(t, p, &internalv1.CancelWave{WaveId: "none"}, fsm.NotFound, "WAVE_NOT_FOUND")
	refused(t, p, advance("m-9"), fsm.NotFound, "WAVE_MACHINE_NOT_FOUND")
	do(t, p, advance("m-0"))
	do(t, p, advance("m-1"))
	refused(t, p, advance("m-2"), fsm.FailedPrecondition, fsm.ReasonWaveFull)
	do(t, p, &internalv1.CancelRun{RunId: "run-m-0"})
	refused(t, p, advance("m-2"), fsm.FailedPrecondition, fsm.ReasonWaveStopped)
	do(t, p, &internalv1.CancelRun{RunId: "run-m-1"})
	refused(t, p, &internalv1.CancelWave{WaveId: "w"}, fsm.FailedPrecondition, fsm.ReasonWaveStopped)
}

// A machine that moves to another pool leaves the rights of the caller that started the wave.
func TestWaveOfMovedMachine(t *testing.T) {
	p := waveLab(t, 2, 2, 0)
	do(t, p, &internalv1.RegisterPool{Pool: &holdfastv1.Pool{PoolId: "other"}, TtlMs: 15_000})
	do(t, p, &internalv1.UpdateMachine{Machine: &holdfastv1.Machine{MachineId: "m-0",
		Spec: &holdfastv1.MachineSpec{Pool: "other"}}, Paths: []string{"spec.pool"}})
	refused(t, p, advance("m-0"), fsm.FailedPrecondition, "MACHINE_MOVED")
	do(t, p, advance("m-1"))
}

// The same wave may be started again; a start of the executor is fenced.
func TestWaveAgain(t *testing.T) {
	p := waveLab(t, 2, 10, 0)
	was, _ := p.View().Wave("w")
	got := do(t, p, &internalv1.StartWave{MachineIds: []string{"m-0", "m-1"},
		Wave: &holdfastv1.Wave{WaveId: "w", Type: "REBOOT"}})
	if diff := cmp.Diff(was, got, protocmp.Transform()); diff != "" {
		t.Errorf("the same request gives another wave (-first +second):\n%s", diff)
	}
	stale := fsmtest.Command(advance("m-0"))
	stale.Epoch = p.Term + 1
	if r := p.Propose(stale)[0]; r.Err == nil || r.Err.Reason != fsm.ReasonStaleEpoch {
		t.Errorf("a command of another leader: got %v, want %s", r.Err, fsm.ReasonStaleEpoch)
	}
}

// TestCompleteWave checks that Apply gives the same wave for a command without defaults, as older
// leaders may have proposed, and for a complete one.
func TestCompleteWave(t *testing.T) {
	var snapshots [][]byte
	given := &internalv1.StartWave{Wave: &holdfastv1.Wave{WaveId: "w", Type: "Reboot"}, MachineIds: []string{"m-0"}}
	complete := &internalv1.StartWave{Wave: fsm.CompleteWave(given.GetWave()), MachineIds: given.GetMachineIds()}
	want := &holdfastv1.Wave{WaveId: "w", Type: "REBOOT", PlanId: "plan/reboot", MaxParallel: 10}
	same(t, "complete wave", want, complete.GetWave())
	same(t, "completed twice", want, fsm.CompleteWave(complete.GetWave()))
	for _, op := range []*internalv1.StartWave{given, complete} {
		p := fsmtest.NewPeer()
		register(t, p, "m-0", ready)
		do(t, p, op)
		snapshots = append(snapshots, snapshotBytes(t, p.FSM))
	}
	if !bytes.Equal(snapshots[0], snapshots[1]) {
		t.Error("the command without defaults gives another state than the complete one")
	}
}

// Ended waves are removed, oldest first, when many new ones start.
func TestWaveRetention(t *testing.T) {
	p := waveLab(t, 1, 1, 0)
	do(t, p, &internalv1.CancelWave{WaveId: "w"})
	for i := range 250 {
		id := fmt.Sprint("w-", i)
		do(t, p, &internalv1.StartWave{MachineIds: []string{"m-0"}, Wave: &holdfastv1.Wave{WaveId: id, Type: "REBOOT"}})
		do(t, p, &internalv1.CancelWave{WaveId: id})
	}
	sizes := p.View().Sizes()
	if sizes["waves"] != 200 || sizes["wave_members"] != 200 {
		t.Errorf("%d waves and %d machines of waves are kept, want 200 and 200", sizes["waves"], sizes["wave_members"])
	}
	if _, ok := p.View().Wave("w-249"); !ok {
		t.Error("the newest wave is gone")
	}
	for i := range 100 {
		id := fmt.Sprint("a-", i)
		do(t, p, &internalv1.StartWave{MachineIds: []string{"m-0"}, Wave: &holdfastv1.Wave{WaveId: id, Type: "REBOOT"}})
	}
	refused(t, p, &internalv1.StartWave{MachineIds: []string{"m-0"}, Wave: &holdfastv1.Wave{WaveId: "b", Type: "REBOOT"}},
		fsm.FailedPrecondition, "TOO_MANY_WAVES")
}

// In any order of starts, refusals, ends and cancels, no machine has two runs of a wave, the limits
// hold, the counts are right, and a snapshot keeps the wave.
func TestWaveProperty(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		parallel, failures := rapid.IntRange(1, 3).Draw(r, "parallel"), rapid.IntRange(0, 2).Draw(r, "failures")
		p := waveLab(t, 5, int32(parallel), int32(failures))
		for range rapid.IntRange(1, 40).Draw(r, "events") {
			machine := fmt.Sprint("m-", rapid.IntRange(0, 4).Draw(r, "machine"))
			before, _ := p.View().Wave("w")
			run, _ := p.View().Run("run-" + machine)
			switch rapid.IntRange(0, 12).Draw(r, "event") {
			case 0, 1, 2, 3, 4, 5:
				c := advance(machine)
				c.Start.RunId += rapid.SampledFrom([]string{"", "-again"}).Draw(r, "id")
				res := p.Do(c)
				now, _ := p.View().Wave("w")
				if res.Err == nil && now.GetActive() > before.GetActive() && before.GetPhase() != holdfastv1.Wave_RUNNING {
					r.Fatalf("a run of %s started in phase %s", machine, before.GetPhase())
				}
			case 6:
				p.Do(refusal(machine))
			case 7, 8, 9, 10:
				if run.GetFinishedAt() == nil && run.GetSteps() != nil {
					p.Do(&internalv1.AbortRun{RunId: run.GetRunId(), Phase: holdfastv1.Run_FAILED,
						Error: &holdfastv1.RunError{Reason: "Test"}})
				}
			case 11:
				p.Do(&internalv1.CancelRun{RunId: "run-" + machine})
			case 12:
				p.Do(&internalv1.CancelWave{WaveId: "w", KeepRuns: rapid.Bool().Draw(r, "keep")})
			}
			if err := fsmtest.Check(p.View()); err != nil {
				r.Fatal(err)
			}
		}
		snapshot, restored := snapshotBytes(t, p.FSM), fsm.New()
		if err := restored.Restore(bytes.NewReader(snapshot)); err != nil {
			r.Fatal(err)
		}
		if !bytes.Equal(snapshot, snapshotBytes(t, restored)) {
			r.Fatal("a restored snapshot differs")
		}
	})
}
