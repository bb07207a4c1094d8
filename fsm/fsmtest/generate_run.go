package fsmtest

import (
	"fmt"
	"slices"

	"github.com/klauspost/compress/zstd"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// runGenerator makes the commands about runs, their logs and their archive. Without a machine to
// run on it registers one, and it has a node report for a run that is observed.
type runGenerator struct {
	draw
	machines machineGenerator
	fleet    fleetGenerator
}

func (g runGenerator) startRun(v *fsm.View) proto.Message {
	var ids, plans []string
	for m := range v.Machines("") {
		if s := m.GetStatus(); s.GetActiveRunId() == "" && s.GetPhase() != holdfastv1.MachineStatus_RETIRED ||
			g.rarely("busy or retired") {
			ids = append(ids, m.GetMachineId())
		}
	}
	if len(ids) == 0 {
		return g.machines.registerMachine(v)
	}
	for p := range v.Plans("") {
		plans = append(plans, p.GetPlanId())
	}
	c := &internalv1.StartRun{
		RunId:                 g.id("run", runIDs),
		MachineId:             oneOf(g.draw, "machine", ids),
		RequestId:             g.id("request", requestIDs),
		DefaultTimeoutSeconds: 60,
		DefaultMaxRetries:     int32(g.Choose("default retries", 3)),
	}
	if m, ok := v.Machine(c.GetMachineId()); ok {
		c.CheckedProvider = m.GetSpec().GetProvider()
	}
	switch g.Choose("what to run", 6) {
	case 0:
		c.Type = oneOf(g.draw, "type", []string{"reboot", "REBOOT", "Reboot", "net-reconfig", "typo"})
	case 1:
		c.Type, c.PlanId = "RMA", oneOf(g.draw, "plan", plans)
	default:
		c.PlanId = oneOf(g.draw, "plan", plans)
	}
	switch {
	case g.Choose("again", 6) == 0: // a client that lost the response
		if old := oneOf(g.draw, "old run", runs(v)); old != nil {
			c.MachineId, c.RequestId, c.Type, c.PlanId, c.Params = old.GetMachineId(), old.GetRequestId(),
				old.GetType(), old.GetPlanId(), old.GetParams()
			if g.rarely("with another body") {
				c.Params = map[string]string{"image": g.id("image", 2)}
			}
		}
	case g.rarely("not allowed"):
		oneOf(g.draw, "fault", []func(){
			func() { c.RequestId = "" },
			func() { c.MachineId = "m-none" },
			func() { c.PlanId = "plan-none" },
			func() { c.CheckedProvider = "dc-gone" },
			func() { c.MissingCapability, c.MissingForStep = "no BMC", "reboot" },
			func() { c.RunId = "" },
		})()
	}
	return c
}

// runs returns all runs, newest first.
func runs(v *fsm.View) []*holdfastv1.Run {
	var all []*holdfastv1.Run
	for _, r := range v.Runs("") {
		all = append(all, r)
	}
	return all
}

// someRun returns an active run, or now and then any other.
func (g runGenerator) someRun(v *fsm.View) *holdfastv1.Run {
	if active := slices.Collect(v.ActiveRuns()); len(active) > 0 && !g.rarely("any run") {
		return oneOf(g.draw, "active run", active)
	}
	if r := oneOf(g.draw, "run", runs(v)); r != nil {
		return r
	}
	return &holdfastv1.Run{RunId: "run-none"}
}

// wait returns a wait that an executor reports, or none. Its sentence must not be stored.
func (g runGenerator) wait() *holdfastv1.Wait {
	if g.rarely("the same wait") {
		return nil
	}
	kinds := []holdfastv1.Wait_Kind{holdfastv1.Wait_ANSWER, holdfastv1.Wait_EFFECT, holdfastv1.Wait_BOOT}
	return &holdfastv1.Wait{Kind: oneOf(g.draw, "kind of wait", kinds), Subject: g.id("thing", 3),
		Cause: g.id("error", 2), Sentence: "a sentence"}
}

func (g runGenerator) cancelRun(v *fsm.View) proto.Message {
	return &internalv1.CancelRun{RunId: g.someRun(v).GetRunId(), Reason: g.id("reason", 2)}
}

// advance returns the next command of an executor for a run, or of one that has missed a
// change.
func (g runGenerator) advance(v *fsm.View) proto.Message {
	if none := len(slices.Collect(v.ActiveRuns())) == 0; none && v.MachineCount() == 0 {
		return g.machines.registerMachine(v)
	} else if none && g.Choose("start one", 4) > 0 {
		return g.startRun(v)
	}
	r := g.someRun(v)
	if r.GetObserved() && !g.rarely("an executor that does not see that it is observed") {
		return g.fleet.reportNode(v)
	}
	var step *holdfastv1.StepStatus
	for _, s := range r.GetSteps() {
		if s.GetName() == r.GetCurrentStep() {
			step = s
		}
	}
	name, n := step.GetName(), int32(len(step.GetAttempts()))
	var open *holdfastv1.Attempt
	if n > 0 && fsm.Open(step.GetAttempts()[n-1]) {
		open = step.GetAttempts()[n-1]
	}
	if g.rarely("out of step") && g.Choose("far out of step", 2) == 0 {
		n += int32(g.Choose("by", 3)) - 1
		name = oneOf(g.draw, "step", append(Kinds(), name))
	}
	if (r.GetCancelRequestedAt() != nil && g.Choose("obey", 2) == 0) || g.rarely("abort") {
		return g.abort(r, open, name, n)
	}
	switch {
	case open == nil && g.Choose("reads the machine", 5) == 0:
		return &internalv1.NoteReading{RunId: r.GetRunId(), Step: name, Attempt: n + 1,
			Wait: &holdfastv1.Wait{Kind: holdfastv1.Wait_READING, Subject: g.id("thing", 3), Since: v.Meta().GetNow(),
				Deadline: v.Meta().GetNow()}}
	case open == nil:
		return &internalv1.BeginAttempt{RunId: r.GetRunId(), Step: name, Attempt: n + 1,
			EvidenceBefore: map[string]string{"boot_id": g.id("boot", 9)}}
	case open.GetEpochs()[len(open.GetEpochs())-1] < v.Meta().GetEpoch():
		return &internalv1.BeginAttempt{
			RunId:          r.GetRunId(),
			Step:           name,
			Attempt:        n,
			EvidenceBefore: map[string]string{"boot_id": g.id("boot", 9)},
		}
	case g.Choose("progress", 3) == 0:
		return &internalv1.NoteProgress{RunId: r.GetRunId(), Step: name, Attempt: n, Wait: g.wait(),
			Evidence: map[string]string{g.id("key", 2): g.id("value", 3)}, Log: g.logAppend(r)}
	}
	end := &internalv1.EndAttempt{
		RunId:   r.GetRunId(),
		Step:    name,
		Attempt: n,
		Outcome: holdfastv1.Attempt_SUCCEEDED,
		Log:     g.logAppend(r),
	}
	if step.GetKind() == "inventory" {
		end.Inventory = &holdfastv1.HardwareInventory{
			Serial: g.id("serial", 3),
			Parts:  []*holdfastv1.HardwarePart{{Kind: "disk", Slot: "1", Serial: g.id("disk", 3)}},
		}
	}
	if g.Choose("fails", 3) == 0 {
		end.Outcome, end.Error, end.ErrorClass = holdfastv1.Attempt_FAILED, g.id("error", 3), "transient"
		end.Permanent = g.rarely("for good")
	}
	return end
}

func (g runGenerator) abort(r *holdfastv1.Run, open *holdfastv1.Attempt, step string, n int32) proto.Message {
	if open != nil && g.Choose("with the attempt", 2) == 0 {
		return &internalv1.EndAttempt{
			RunId:   r.GetRunId(),
			Step:    step,
			Attempt: n,
			Outcome: holdfastv1.Attempt_CANCELED,
			Error:   "canceled",
		}
	}
	phase := oneOf(g.draw, "aborted as", []holdfastv1.Run_Phase{
		holdfastv1.Run_FAILED, holdfastv1.Run_CANCELED, holdfastv1.Run_CANCELED, holdfastv1.Run_SUCCEEDED,
	})
	return &internalv1.AbortRun{
		RunId: r.GetRunId(),
		Phase: phase,
		Error: &holdfastv1.RunError{Reason: "Aborted", Message: g.id("error", 3)},
	}
}

// logAppend continues a run's log, repeats a part, or leaves a gap.
func (g runGenerator) logAppend(r *holdfastv1.Run) *internalv1.LogAppend {
	a := &internalv1.LogAppend{RunId: r.GetRunId(), Offset: fsm.OwnLogBytes(r)}
	for range g.Choose("chunks", 3) {
		a.Chunks = append(a.Chunks, &holdfastv1.LogChunk{
			Stream:  "stdout",
			Step:    r.GetCurrentStep(),
			Attempt: 1,
			Data:    []byte(oneOf(g.draw, "line", []string{"", "x", "über\n", "a longer line\n"})),
		})
	}
	switch {
	case g.rarely("a hole"):
		a.Offset++
	case g.Choose("repeat", 4) == 0 && a.GetOffset() > 0:
		back := min(a.GetOffset(), int64(1+g.Choose("back", 8)))
		a.Offset -= back
		a.Chunks = append([]*holdfastv1.LogChunk{{Stream: "stdout", Data: make([]byte, back)}}, a.GetChunks()...)
	}
	return a
}

func (g runGenerator) appendLogs(v *fsm.View) proto.Message {
	c := &internalv1.AppendRunLogs{}
	for range 1 + g.Choose("runs", 3) {
		c.Appends = append(c.Appends, g.logAppend(g.someRun(v)))
	}
	return c
}

// compactLog compresses the log of an ended run, in one block or in two.
func (g runGenerator) compactLog(v *fsm.View) proto.Message {
	r := oneOf(g.draw, "run with a log", slices.Collect(v.UncompactedRuns()))
	if r == nil || g.rarely("any run") {
		r = g.someRun(v)
	}
	blocks := v.LogBlocks(r.GetRunId())
	if n := len(blocks); n > 1 && g.Choose("in part", 3) == 0 {
		blocks = blocks[:1+g.Choose("blocks", n)]
	}
	c := &internalv1.CompactRunLog{RunId: r.GetRunId(), Block: &internalv1.LogBlock{}}
	if len(blocks) == 0 || g.rarely("a block of nothing") {
		return c
	}
	c.Block = Compress(v, r.GetRunId(), blocks[0].GetOffset(),
		blocks[len(blocks)-1].GetOffset()+blocks[len(blocks)-1].GetSize())
	return c
}

// Compress returns a compressed block of a run's log, between two bytes at the boundaries of
// blocks.
func Compress(v *fsm.View, run string, from, to int64) *internalv1.LogBlock {
	all := &internalv1.LogChunks{}
	for c := range v.RunLog(run, from) {
		if c.GetOffset() < to {
			c.RunId, c.Offset = "", 0
			all.Chunks = append(all.Chunks, c)
		}
	}
	raw, err := proto.MarshalOptions{Deterministic: true}.Marshal(all)
	if err != nil {
		panic(fmt.Sprintf("encode log chunks: %v", err)) // they were decoded before
	}
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest),
		zstd.WithLowerEncoderMem(true))
	if err != nil {
		panic(fmt.Sprintf("make zstd encoder: %v", err)) // its options are constants
	}
	return &internalv1.LogBlock{
		Offset: from, Size: to - from, Codec: internalv1.LogBlock_ZSTD, Payload: enc.EncodeAll(raw, nil),
	}
}
