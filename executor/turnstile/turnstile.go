// Package turnstile bounds the runs that are between two attempts of steps.
//
// Without a bound, all active runs compete for the processors of the leader at once, so each waits
// for all others between two of its steps. A run takes a place before it observes the machine for
// its next attempt, and leaves it when the intent is committed.
//
// The package must not know how a run makes progress.
package turnstile

import (
	"context"

	"golang.org/x/sync/semaphore"

	"github.com/holdfast-metal/holdfast/proto/holdfast/stepkind"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Class is a class of runs. Each class has places of its own, so no run waits for one of another
// class.
type Class int

// The classes, in the order in which their runs begin.
const (
	Urgent   Class = iota // the plan destroys data, or an operator uses the run's console
	Ordinary              // all others, such as queries of power states
	classes
)

// ClassOf returns the class of the runs of a plan, which may be nil.
func ClassOf(p *holdfastv1.Plan) Class {
	for _, s := range p.GetSteps() {
		if kind := stepkind.Of(s); kind.GetDestroys() || kind.GetConcurrent() {
			return Urgent
		}
	}
	return Ordinary
}

// Turnstile has the places of one term. A run that continues passes before runs that begin.
//
// Nobody waits for a place while it holds one. So even if all places are held, none of the holders
// waits for another run, and each leaves after its observation and one commit.
type Turnstile struct {
	places [classes]*semaphore.Weighted
	freed  chan struct{}
}

// New returns a Turnstile with a number of places for each class.
func New(places int) *Turnstile {
	t := &Turnstile{freed: make(chan struct{}, 1)}
	for c := range t.places {
		t.places[c] = semaphore.NewWeighted(int64(places))
	}
	return t
}

// TryEnter takes a place for a run that begins. It reports whether there was one: it fails if all
// places are held, or if a run that continues waits for one.
func (t *Turnstile) TryEnter(c Class) bool { return t.places[c].TryAcquire(1) }

// Enter blocks until it has taken a place for a run that continues, first come, first served. It
// takes none and returns an error if ctx ends first.
func (t *Turnstile) Enter(ctx context.Context, c Class) error {
	err := t.places[c].Acquire(ctx, 1)
	if err != nil {
		t.notify() // it may have been the one for which TryEnter failed
	}
	return err
}

// Leave frees a place.
func (t *Turnstile) Leave(c Class) {
	t.places[c].Release(1)
	t.notify()
}

// Freed receives a value after places were freed: TryEnter may succeed now.
func (t *Turnstile) Freed() <-chan struct{} { return t.freed }

func (t *Turnstile) notify() {
	select {
	case t.freed <- struct{}{}:
	default:
	}
}
