package run

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/cli/kinds"
	"github.com/holdfast-metal/holdfast/internal/cli/output"
	"github.com/holdfast-metal/holdfast/internal/cli/progress"
	"github.com/holdfast-metal/holdfast/internal/cli/render"
	"github.com/holdfast-metal/holdfast/internal/cli/start"
	"github.com/holdfast-metal/holdfast/internal/describe"
	"github.com/holdfast-metal/holdfast/internal/filter"
	"github.com/holdfast-metal/holdfast/internal/wait"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

const (
	waitForWave = "maximum time to follow the wave (--wait=2h); it continues afterwards"
	// wavePoll is the interval at which the counts of a followed wave are read.
	wavePoll = time.Second
)

// startedWave follows a wave that has been started until it ends, or only prints it.
func startedWave(ctx context.Context, a *app.App, c *client.Client, w *holdfastv1.Wave, detach bool,
	limit time.Duration,
	show func(*holdfastv1.Wave) error) error {
	a.Note("%s: %s, at most %d at a time", w.GetWaveId(), describe.Machines(w.GetTotal()), w.GetMaxParallel())
	if detach {
		a.Note("%s: it goes on: follow it with: holdfast wave watch %s", w.GetWaveId(), w.GetWaveId())
		return show(w)
	}
	return finishWave(ctx, a, c, w, limit, show)
}

// finishWave follows a wave until it ends, shows it, and returns an error unless all its runs
// succeeded.
func finishWave(ctx context.Context, a *app.App, c *client.Client, w *holdfastv1.Wave, limit time.Duration,
	show func(*holdfastv1.Wave) error) error {
	id := w.GetWaveId()
	onward := fmt.Sprintf("it goes on: follow it with: holdfast wave watch %s; end it with: holdfast wave cancel %s",
		id, id)
	ctx, cancel := a.Patience(ctx, limit)
	defer cancel()
	f := &follower{App: a, c: c, wave: w, ended: map[string]bool{}}
	err := f.follow(ctx)
	switch {
	case err != nil && start.TimeUp(ctx):
		return app.Exitf(app.ExitTimeout, "wave %s: time is up: %s", id, onward)
	case err != nil && errors.Is(ctx.Err(), context.Canceled):
		return app.Exitf(app.ExitError, "wave %s: detached: %s", id, onward)
	case err != nil:
		a.Note("%s: %s", id, onward)
		return app.Failed(err, "follow wave %s", id)
	}
	if w, err = kinds.GetWave(ctx, c, id); err != nil {
		return app.Failed(err, "get wave %s", id)
	}
	a.Note("%s: %d of %d done, %d failed. %s", id, kinds.WaveDone(w), w.GetTotal(), kinds.WaveFailures(w),
		describe.Wave(w, time.Now()))
	if err := show(w); err != nil {
		return err
	}
	return waveError(w)
}

// waveError returns the result of a wave that has ended as an error, or nil if all runs succeeded.
func waveError(w *holdfastv1.Wave) error {
	if w.GetPhase() == holdfastv1.Wave_SUCCEEDED {
		return nil
	}
	text := fmt.Sprintf("wave %s: %s: %d of %d machines succeeded", w.GetWaveId(), w.GetPhase(), w.GetSucceeded(),
		w.GetTotal())
	for _, part := range []struct {
		name  string
		n     int32
		state holdfastv1.WaveMachine_State
	}{
		{"failed", w.GetFailed(), holdfastv1.WaveMachine_FAILED},
		{"canceled", w.GetCanceled(), holdfastv1.WaveMachine_CANCELED},
		{"refused", w.GetRefused(), holdfastv1.WaveMachine_REFUSED},
		{"not started", w.GetNotStarted(), holdfastv1.WaveMachine_NOT_STARTED},
	} {
		if part.n > 0 {
			text += fmt.Sprintf("; %s: %d (%s)", part.name, part.n, machinesIn(w, part.state))
		}
	}
	return app.Exitf(app.ExitRunFailed, "%s: remove the cause, then: holdfast wave retry %s", text, w.GetWaveId())
}

// machinesIn returns the machines of a wave in a state, at most ten.
func machinesIn(w *holdfastv1.Wave, state holdfastv1.WaveMachine_State) string {
	var names []string
	for _, m := range w.GetMachines() {
		if m.GetState() == state {
			names = append(names, m.GetMachineId())
		}
	}
	return start.AtMostTen(names)
}

// follower shows the progress of a wave on standard error.
type follower struct {
	*app.App
	c     *client.Client
	ended map[string]bool // runs whose end was shown

	mu   sync.Mutex
	wave *holdfastv1.Wave
}

func (f *follower) now() *holdfastv1.Wave {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.wave
}

// follow shows the wave until it ends.
func (f *follower) follow(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	watching, stop := context.WithCancel(ctx)
	g.Go(func() error {
		defer stop()
		return f.poll(ctx)
	})
	g.Go(func() error {
		err := f.watch(watching)
		if watching.Err() != nil { // poll has the result
			return nil
		}
		return err
	})
	return g.Wait()
}

// poll reads the counts of the wave until it ends.
func (f *follower) poll(ctx context.Context) error {
	id, said := f.now().GetWaveId(), ""
	for f.now().GetFinishedAt() == nil {
		if err := wait.Sleep(ctx, wavePoll); err != nil {
			return err
		}
		call, cancel := context.WithTimeout(ctx, f.Globals.Timeout)
		r, err := f.c.Waves().ListWaves(call, &holdfastv1.ListWavesRequest{Filter: filter.Equals("wave_id", id)})
		cancel()
		switch {
		case err != nil:
			return err
		case len(r.GetWaves()) == 0:
			return app.Exitf(app.ExitNotFound, "wave %s not found", id)
		}
		w := r.GetWaves()[0]
		f.mu.Lock()
		f.wave = w
		f.mu.Unlock()
		holdsUp := describe.Wait(w.GetHoldsUp().GetWait()) + id
		if w.GetPhase() == holdfastv1.Wave_STOPPING && !f.Terminal(f.Err) && said != holdsUp {
			said = holdsUp // each wait once, since nothing else may change for long
			f.Note("%s: %s", id, describe.Wave(w, time.Now()))
		}
	}
	return nil
}

// watch shows the runs of the wave.
func (f *follower) watch(ctx context.Context) error {
	ofWave := filter.Equals("request_id", f.now().GetWaveId())
	watch := func(ctx context.Context, see func(*holdfastv1.RunEvent) error) error {
		return f.c.WatchRuns(ctx, ofWave, 0, see)
	}
	if f.Terminal(f.Err) {
		head := func() []render.Line { return progress.Wave(f.now(), time.Now()) }
		return output.DrawRunsBelow(ctx, f.App, f.Err, head, false, watch)
	}
	return watch(ctx, func(e *holdfastv1.RunEvent) error {
		r := e.GetSnapshot()
		if r.GetFinishedAt() == nil || f.ended[r.GetRunId()] {
			return nil
		}
		f.ended[r.GetRunId()] = true
		f.Note("%s %s %s: %d of %d done", r.GetMachineId(), r.GetRunId(), r.GetPhase(), len(f.ended), f.now().GetTotal())
		return nil
	})
}
