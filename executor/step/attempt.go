package step

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"time"

	"github.com/holdfast-metal/holdfast/executor/console"
	"github.com/holdfast-metal/holdfast/executor/task"
	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/providers"
)

// ErrCanceled is the cause with which the context of a run ends that was canceled.
var ErrCanceled = errors.New("run was canceled")

// PrepareTime bounds the observation of the machine before the intent. An attempt that fails there
// is recorded like any other.
const PrepareTime = 30 * time.Second

// Config tunes steps. The zero value is the default everywhere.
type Config struct {
	PollMin      time.Duration // first interval between observations. Default 20 ms
	PollMax      time.Duration // maximum interval between observations. Default 2 s
	SoftOff      time.Duration // time for an operating system to shut down after a soft off. Default 1 min
	Linger       time.Duration // time that a console stays open with no client attached. Default 30 s
	UnseenBoot   time.Duration // time for a host to boot if its boot cannot be observed. Default 1 min
	DeadAfter    time.Duration // time without an answer until a machine to be taken out counts as dead. Default 1 min
	BMCGoes      time.Duration // time for a BMC that was reset to go away. Default 1 min
	StepDeadline time.Duration // for steps without a recorded timeout. Default 10 min

	// DenyURL returns an error if the URL of a virtual medium is not allowed. The error is worded
	// to follow "the URL". If nil, all URLs are allowed.
	DenyURL func(url string) error
}

// WithDefaults returns the configuration with its defaults filled in.
func (c Config) WithDefaults() Config {
	c.PollMin = cmp.Or(c.PollMin, 20*time.Millisecond)
	c.PollMax = cmp.Or(c.PollMax, 2*time.Second)
	c.SoftOff = cmp.Or(c.SoftOff, time.Minute)
	c.Linger = cmp.Or(c.Linger, 30*time.Second)
	c.UnseenBoot = cmp.Or(c.UnseenBoot, time.Minute)
	c.DeadAfter = cmp.Or(c.DeadAfter, time.Minute)
	c.BMCGoes = cmp.Or(c.BMCGoes, time.Minute)
	c.StepDeadline = cmp.Or(c.StepDeadline, 10*time.Minute)
	if c.DenyURL == nil {
		c.DenyURL = func(string) error { return nil }
	}
	return c
}

// Env is what an action may do besides observing.
type Env interface {
	// Effect runs do, which changes the outside world, right after a majority has confirmed the
	// term. what is written to the run log.
	Effect(ctx context.Context, what string, do func(context.Context) error) error

	// Record commits evidence and the current wait in the middle of an attempt.
	Record(ctx context.Context, evidence map[string]string) error

	// Note commits the current wait if it has lasted for a while.
	Note(ctx context.Context) error

	// Adopt commits that this leader continues an attempt in order to end it. most bounds its time.
	// It may be called again.
	Adopt(ctx context.Context, most time.Duration) error
}

// Log is the run log of an attempt.
type Log interface {
	Write(stream string, data []byte)
	// WriteBy writes output that appeared while a principal could type; "": nobody could.
	WriteBy(principal, stream string, data []byte)
	Commit(ctx context.Context) error // commits all that was written
}

// Attempt is one try of a step, as its action sees it.
type Attempt struct {
	Env
	Log    Log
	Logger *slog.Logger // of the leader
	Config Config

	State    task.State
	Run      *holdfastv1.Run // as of the last commit
	Plan     *holdfastv1.Plan
	Step     *holdfastv1.Step
	Status   *holdfastv1.StepStatus // as of the begin of the attempt
	Kind     string                 // of the step
	Machine  *holdfastv1.Machine
	Provider providers.Provider
	Op       providers.Op
	Adopted  bool            // an earlier leader began the attempt: observe before acting
	Began    time.Time       // when this leader recorded the intent
	Ending   time.Time       // since when new leaders only end the attempt; zero: they continue it
	Term     context.Context // ends with the term
	Life     context.Context // ends with the term, or when the run is canceled

	Consoles *console.Set
	Turns    *Turns
	Instance string            // name of the provider
	Stagger  providers.Stagger // of the provider

	values fsm.Values // parameters of the run, set by Choose
	erases bool       // its command erases the disks

	Before    map[string]string             // evidence from before the effect
	Seen      map[string]string             // evidence gathered since
	Message   string                        // final message of the step
	Inventory *holdfastv1.HardwareInventory // read from the machine, to be stored with the outcome
	Wait      Wait
	Broken    error // a commit during the attempt failed: this leader cannot conclude it

	InFlight InFlight
}

// Action is the implementation of a step. Do carries it out and gathers the evidence. Before may be
// nil; it observes the state that the effect will change.
type Action struct {
	Do     func(context.Context) error
	Before func(context.Context) (map[string]string, error)
	Reads  string // what Before reads: "power"
	From   string // what answers it; empty: the BMC
}

// Observe observes the machine before the effect, for at most that time. slow is called with the
// wait and its deadline, and stop when the wait has ended.
func (a *Attempt) Observe(
	ctx context.Context, how Action, most time.Duration, slow func(w *holdfastv1.Wait, deadline time.Time) (stop func()),
) error {
	short, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	w := firstReading(cmp.Or(how.From, bmc), how.Reads+" of "+a.Machine.GetMachineId())
	a.awaits(w)
	end, _ := short.Deadline()
	defer slow(w, end)()
	err := a.Poll(short, w, func(ctx context.Context) (bool, error) {
		seen, err := how.Before(ctx)
		a.Before = task.Values(seen)
		return err == nil, err
	})
	if err != nil && short.Err() != nil && ctx.Err() == nil {
		return fmt.Errorf("reading %s: %s did not answer within %s: %w", w.GetValue(), w.GetSubject(), rounded(most), err)
	}
	return err
}

// rounded returns a duration as it is shown in texts.
func rounded(d time.Duration) time.Duration { return d.Round(100 * time.Millisecond) }

// Cleanup cleans up after an earlier leader if the run was canceled meanwhile: it ends effects that
// are still in progress. It adopts the attempt if there was anything to end.
func (a *Attempt) Cleanup(ctx context.Context) error {
	if !a.Adopted {
		return nil
	}
	for _, end := range []func(context.Context) error{a.cleanupCommand, lightStep{a}.cleanupLight, a.cleanupPress} {
		if err := end(ctx); err != nil {
			return err
		}
	}
	return nil
}

// leastToEnd is the least time in which a leader tries to end what an attempt has begun.
const leastToEnd = 2 * time.Second

// toEnd returns how long this leader tries to end what an attempt has begun. All leaders together
// have most, but each has a moment.
func (a *Attempt) toEnd(most time.Duration) time.Duration {
	if a.Ending.IsZero() {
		return most
	}
	return min(most, max(most-time.Since(a.Ending), leastToEnd))
}

// AddEvidence adds evidence to the outcome.
func (a *Attempt) AddEvidence(evidence map[string]string) {
	if a.Seen == nil {
		a.Seen = map[string]string{}
	}
	maps.Copy(a.Seen, task.Values(evidence))
}

// Say writes a line to the run log, in the stream "system".
func (a *Attempt) Say(format string, args ...any) {
	a.Log.Write("system", fmt.Appendf(nil, format+"\n", args...))
}
