package ui

import (
	"fmt"
	"net/url"
	"strconv"
	"time"

	"github.com/google/uuid"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-metal/holdfast/internal/describe"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/ui/internal/display"
)

// waveBody is the page of one wave.
type waveBody struct {
	Wave      *holdfastv1.Wave
	Summary   string
	Shares    []display.WaveShare
	Machines  []*holdfastv1.WaveMachine // of this page
	State     string                    // of the shown machines; empty: all
	MayCancel bool
	MayRetry  bool
	pageLinks
}

func (d *dashboard) wave(v *visit) error {
	w, err := v.theWave()
	if err != nil {
		return err
	}
	b := waveBody{Wave: w, Summary: describe.Wave(w, time.Now()), Shares: display.WaveShares(w)}
	ended := w.GetFinishedAt() != nil
	b.MayCancel = !ended && w.GetCancelRequestedAt() == nil && v.may("WaveService/CancelWave")
	b.MayRetry = ended && w.GetPhase() != holdfastv1.Wave_SUCCEEDED && v.may("WaveService/RetryWave")
	b.choose(v.r.URL.Query())
	return v.page("wave", w.GetWaveId(), "waves", b, nil)
}

// choose sets the shown machines: those of a state, and of these one page.
func (b *waveBody) choose(q url.Values) {
	path, all := display.WavePath(b.Wave.GetWaveId()), b.Wave.GetMachines()
	if s, ok := holdfastv1.WaveMachine_State_value[q.Get("state")]; ok && s != 0 {
		b.State, all = q.Get("state"), nil
		for _, m := range b.Wave.GetMachines() {
			if int32(m.GetState()) == s {
				all = append(all, m)
			}
		}
	}
	from := firstRow(q.Get("from"))
	if from > len(all) {
		from = 1
	}
	end := min(from-1+rows, len(all))
	b.Machines, b.Total = all[from-1:end], totalOf(from, end-from+1, len(all), true, "machine", "machines")
	if from > 1 {
		b.First = display.Link(path, "state", b.State)
	}
	if end < len(all) {
		b.Next = display.Link(path, "state", b.State, "from", strconv.Itoa(end+1))
	}
}

// theWave returns the wave of the path.
func (v *visit) theWave() (*holdfastv1.Wave, error) {
	return v.read.waves.GetWave(v.ctx, &holdfastv1.GetWaveRequest{WaveId: v.r.PathValue("id")})
}

// waveOf returns the id of the wave that started a run, or "". A caller of StartRun may have used
// the id of a wave for another run.
func waveOf(v *visit, run *holdfastv1.Run) (string, error) {
	if run.GetRequestId() == "" {
		return "", nil
	}
	w, err := v.read.waves.GetWave(v.ctx, &holdfastv1.GetWaveRequest{
		WaveId: run.GetRequestId(), MachineId: run.GetMachineId()})
	if status.Code(err) == codes.NotFound {
		return "", nil
	}
	for _, m := range w.GetMachines() {
		if m.GetRunId() == run.GetRunId() {
			return w.GetWaveId(), err
		}
	}
	return "", err
}

// cancelWaveQuestion returns the confirmation page for canceling a wave. The number to type is
// that of all its machines, because the other counts change meanwhile.
func cancelWaveQuestion(v *visit, form url.Values) (actBody, error) {
	b := actBody{Kind: "cancel-wave", Form: form, Submit: "Cancel the wave", Grave: true}
	w, err := v.theWave()
	if err != nil {
		return b, err
	}
	b.Subject, b.Back = w.GetWaveId(), display.WavePath(w.GetWaveId())
	b.Typed = strconv.Itoa(int(w.GetTotal()))
	b.Happens = []string{
		fmt.Sprintf("The wave has %s. It starts no more runs; waiting machines: %d.",
			describe.Number(w.GetTotal(), "machine"), w.GetWaiting()),
		fmt.Sprintf("Its active runs, now %d, are canceled. Their machines may be left in an intermediate state, "+
			"and go to maintenance.", w.GetActive()),
	}
	return b, nil
}

func cancelWave(v *visit, b actBody) (string, error) {
	_, err := v.write.waves.CancelWave(v.ctx, &holdfastv1.CancelWaveRequest{
		WaveId: b.Subject, Reason: b.Value("comment"), KeepRuns: b.Value("keep_runs") != "",
	})
	return b.Back, err
}

// retryWaveQuestion returns the confirmation page for a wave on the machines of another one that
// have not succeeded. The leader selects them.
func retryWaveQuestion(v *visit, form url.Values) (actBody, error) {
	b := actBody{Kind: "retry-wave", Form: form, Request: form.Get("request"), Grave: true}
	old, err := v.theWave()
	if err != nil {
		return b, err
	}
	b.Subject, b.Back = old.GetWaveId(), display.WavePath(old.GetWaveId())
	if b.Request == "" {
		id := uuid.New()
		b.Request = fmt.Sprintf("wave-%x", id[:8])
	}
	w, err := v.write.waves.RetryWave(v.ctx, &holdfastv1.RetryWaveRequest{
		WaveId: b.Subject, RequestId: b.Request, ValidateOnly: true,
	})
	if err != nil {
		return b, err
	}
	if b.Plan, err = v.read.plans.GetPlan(v.ctx, &holdfastv1.GetPlanRequest{PlanId: w.GetPlanId()}); err != nil {
		return b, err
	}
	b.Steps, b.Submit, b.Typed = display.PlanSteps(b.Plan, w.GetParams()), "Start the wave",
		strconv.Itoa(int(w.GetTotal()))
	b.Happens = []string{fmt.Sprintf("A new wave starts a run of %s on each machine that has not succeeded (%d), "+
		"at most %d at a time. It stops after more than %s.", w.GetPlanId(), w.GetTotal(), w.GetMaxParallel(),
		describe.Number(w.GetMaxFailures(), "failure"))}
	for _, s := range b.Steps {
		if s.Destroys {
			b.Happens = append(b.Happens, "All data on these machines will be lost.")
			break
		}
	}
	return b, nil
}

func retryWave(v *visit, b actBody) (string, error) {
	w, err := v.write.waves.RetryWave(v.ctx, &holdfastv1.RetryWaveRequest{WaveId: b.Subject, RequestId: b.Request})
	return display.WavePath(w.GetWaveId()), err
}
