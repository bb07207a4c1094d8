// Package runs drives runs on the leader.
//
// For each attempt of a step it commits the intent, does the effect, gathers fresh evidence that it
// happened, and commits the outcome (docs/concepts.md). A new leader that finds an intent without
// an outcome observes before it acts. It also commits the logs of runs, and compresses those of
// ended runs.
//
// Urgent runs begin first, the others in the order of their arrival. The turnstile bounds the runs
// that are between two attempts, and runs that continue pass it before runs that begin.
//
// It must not decide how an outcome changes a run (the FSM does), and it must reach hardware only
// through a provider.
package runs

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/errgroup"

	"github.com/holdfast-metal/holdfast/cluster/leader"
	"github.com/holdfast-metal/holdfast/executor/console"
	"github.com/holdfast-metal/holdfast/executor/fence"
	"github.com/holdfast-metal/holdfast/executor/step"
	"github.com/holdfast-metal/holdfast/executor/task"
	"github.com/holdfast-metal/holdfast/executor/turnstile"
	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/providers"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Config tunes an Executor. The zero value is the default everywhere.
type Config struct {
	step.Config

	MaxActive int           // maximum number of active runs; the others wait in the queue. Default 10,000
	RetryBase time.Duration // delay before the first retry, doubled for each further one. Default 1 s
	RetryMax  time.Duration // maximum delay between retries. Default 1 min
	NoteAfter time.Duration // duration of a wait before it is recorded. Default 1 s
	LogFlush  time.Duration // time until a line of a log is committed. Default 200 ms

	Logger *slog.Logger
	Tracer trace.Tracer // records spans of attempts; nil for none

	places int // of the turnstile for each class. Default 192

	// Boundary is called at each boundary of each attempt, with the kind of the step.
	// Tests crash the leader there.
	Boundary func(b Boundary, kind string)
}

func (c Config) withDefaults() Config {
	c.Config = c.Config.WithDefaults()
	c.RetryBase = cmp.Or(c.RetryBase, time.Second)
	c.RetryMax = cmp.Or(c.RetryMax, time.Minute)
	c.NoteAfter = cmp.Or(c.NoteAfter, time.Second)
	c.LogFlush = cmp.Or(c.LogFlush, 200*time.Millisecond)
	c.MaxActive = cmp.Or(c.MaxActive, 10_000)
	c.places = cmp.Or(c.places, places)
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	if c.Boundary == nil {
		c.Boundary = func(Boundary, string) {}
	}
	return c
}

// Executor is the leader task that drives runs.
type Executor struct {
	cfg       Config
	proposer  task.Proposer
	state     task.State
	providers *providers.Set
	consoles  *console.Set
	turns     *step.Turns
}

// New returns an Executor; Run it in each term.
func New(cfg Config, p task.Proposer, s task.State, set *providers.Set) *Executor {
	return &Executor{
		cfg:       cfg.withDefaults(),
		proposer:  p,
		state:     s,
		providers: set,
		consoles:  console.NewSet(s),
		turns:     step.NewTurns(),
	}
}

// Run drives all active runs until the term ends. It returns after all its goroutines
// have ended. It returns an error if this leader cannot continue and another one should.
func (e *Executor) Run(ctx context.Context, t leader.Term) error {
	defer e.consoles.Lead()()
	g, gctx := errgroup.WithContext(ctx)
	tm := &term{
		Executor: e,
		epoch:    t.Epoch,
		fence:    fence.Fence{Began: time.Now(), Confirm: t.Confirm},
		runners:  map[string]*runner{},
		queue:    newQueue(),
		between:  turnstile.New(e.cfg.places),
		done:     make(chan string),
		group:    g,
		logs:     newLogSet(),
	}
	g.Go(func() error { return tm.follow(gctx) })
	g.Go(func() error { return tm.flushLogs(gctx) })
	g.Go(func() error { return tm.compact(gctx) })
	if err := g.Wait(); ctx.Err() == nil {
		return fmt.Errorf("execute runs in term %d: %w", t.Epoch, err)
	}
	return nil
}

// Attach connects a principal to the console that a run keeps open: see console.Set.
func (e *Executor) Attach(ctx context.Context, run, principal string, write bool) (io.ReadWriteCloser, error) {
	return e.consoles.Attach(ctx, run, principal, write)
}

// Leave records that a client that has closed the console will not return: see console.Set.
func (e *Executor) Leave(run string) { e.consoles.Leave(run) }

// term is the state of the executor in one term.
type term struct {
	*Executor
	epoch        uint64
	fence        fence.Fence
	group        *errgroup.Group
	runners      map[string]*runner   // by run id; owned by follow
	consoleCount int                  // runners of consoles, which do not count against MaxActive; owned by follow
	queue        *queue               // owned by follow
	between      *turnstile.Turnstile // of the runs between two attempts
	done         chan string          // receives the run ids of runners that have ended
	logs         *logSet
}

// follow starts a runner for each active run, oldest first, and cancels the runners of
// canceled runs. It reads changes from the event log, so its cost does not grow with the
// number of active runs.
func (t *term) follow(ctx context.Context) error {
	changed, view := t.state.Changed(), t.state.View()
	cursor := view.LastRunEvent()
	for run := range view.ActiveRuns() {
		switch {
		case run.GetObserved(): // advanced by the reports of an installer
		case run.GetConcurrent(): // it runs concurrently with other runs of the machine
			t.start(ctx, newRunner(ctx, t, waiting{run: run}, t.lineOf(view, run)))
		case run.GetPhase() == holdfastv1.Run_PENDING:
			t.queue.add(run, t.lineOf(view, run))
		default: // it has begun and may be in the middle of an effect, so it does not queue
			at := t.lineOf(view, run)
			t.queue.work(at)
			t.start(ctx, newRunner(ctx, t, waiting{run: run}, at))
		}
	}
	for {
		t.begin(ctx, view)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case id := <-t.done:
			r := t.runners[id]
			if r.concurrent {
				t.consoleCount--
			} else {
				t.queue.done(r.line)
			}
			delete(t.runners, id)
			if now := t.state.View(); unbegun(now, id) { // its plan is held now, if not as of the view
				view = now
				t.queue.giveBack(waiting{r.run, r.place}, r.line)
			}
			continue
		case <-t.between.Freed():
			continue
		case <-changed:
		}
		changed, view = t.state.Changed(), t.state.View()
		for {
			events, err := view.RunEvents(cursor, 1024)
			if err != nil { // so far behind that events have been deleted: restart the term
				return err
			}
			if len(events) == 0 {
				break
			}
			cursor = events[len(events)-1].GetCursor()
			t.learn(ctx, view, events)
		}
	}
}

// begin starts the queued runs that may begin now.
func (t *term) begin(ctx context.Context, view *fsm.View) {
	full := map[turnstile.Class]bool{}
	mayBegin := func(at line, running int) bool {
		return !full[at.class] && !t.queue.greedy(at, "", t.cfg.MaxActive) &&
			view.MayBegin(at.cohort, running) && view.MayBeginInFleet(at.cohort.Plan, t.queue.inFleet(at))
	}
	for len(t.runners)-t.consoleCount < t.cfg.MaxActive {
		at, ok := t.queue.next(mayBegin, t.providers.MaxActive)
		switch {
		case !ok:
			return
		case t.between.TryEnter(at.class):
			r := newRunner(ctx, t, t.queue.take(at), at)
			r.entered = true
			t.start(ctx, r)
		default:
			full[at.class] = true
		}
	}
}

// unbegun reports whether a run still waits to begin.
func unbegun(view *fsm.View, id string) bool {
	run, ok := view.Run(id)
	return ok && run.GetPhase() == holdfastv1.Run_PENDING
}

// lineOf returns the line of a run. A console has no provider, because the limit of active runs of
// a provider does not count it.
func (t *term) lineOf(view *fsm.View, run *holdfastv1.Run) line {
	plan, _ := view.Plan(run.GetPlanId())
	at := line{cohort: fsm.CohortOf(run), class: turnstile.ClassOf(plan)}
	if !run.GetConcurrent() {
		m, _ := view.Machine(run.GetMachineId())
		at.provider = t.providers.NameOf(m)
	}
	return at
}

// learn processes events: it queues new runs, removes canceled ones from the queue, and
// cancels the runners of others.
func (t *term) learn(ctx context.Context, view *fsm.View, events []*holdfastv1.RunEvent) {
	for _, ev := range events {
		run := ev.GetSnapshot()
		if r, ok := t.runners[run.GetRunId()]; ok {
			if run.GetCancelRequestedAt() != nil {
				r.cancel(step.ErrCanceled)
			}
			continue
		}
		switch {
		case run.GetPhase() == holdfastv1.Run_PENDING && run.GetConcurrent():
			t.start(ctx, newRunner(ctx, t, waiting{run: run}, t.lineOf(view, run)))
		case run.GetPhase() == holdfastv1.Run_PENDING:
			t.queue.add(run, t.lineOf(view, run))
		case fsm.Ended(run):
			t.queue.remove(run)
		}
	}
}

func (t *term) start(ctx context.Context, r *runner) {
	if r.concurrent {
		t.consoleCount++
	}
	t.runners[r.id] = r
	t.group.Go(func() error {
		defer r.cancel(nil)
		defer r.leave()
		err := r.drive(ctx)
		if ctx.Err() != nil {
			return nil // the term has ended: the next leader continues the run
		}
		if err != nil {
			return fmt.Errorf("drive run %s: %w", r.id, err)
		}
		t.logs.remove(r.id)
		select {
		case t.done <- r.id:
		case <-ctx.Done():
		}
		return nil
	})
}
