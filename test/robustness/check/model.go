package check

import (
	"fmt"
	"slices"

	"github.com/anishathalye/porcupine"
)

// The model of one machine, as its clients can tell: a label that is written and read, and runs, of
// which each is made once, is active then, and has ended some time later for good. At most one is
// active.
//
// When a run ends is the executor's matter. The model lets it end at the latest possible moment:
// when an answer says that it has ended, that the machine is free, or that another run was made.
// That is exact, because an answer that shows it active can only come before that moment, and no
// other answer minds. A plan is a machine without runs.
//
// A call whose outcome is not known stays open for ever. It is taken to be applied, at the latest
// after everything else: then it has changed nothing that anybody saw, which is as good as never.

// action is what a call means to the model.
type action int

const (
	look   action = iota // the label and the active run are as given
	write                // the label becomes value; then as look, when something was answered
	create               // the run is made, or was made before
	busy                 // another run is active, and this one was not made before
	made                 // the run was made before
	absent               // the run was not made before
	active               // the run is active
	ended                // the run has ended
)

func (a action) String() string {
	return []string{"look", "write", "create", "busy", "made", "absent", "active", "ended"}[a]
}

// input is a call, with what was answered: there is nothing to predict, only to allow.
type input struct {
	do       action
	words    string // for the picture
	value    string
	run      int // number of the run the call is about; 0 is none
	active   int // number of the run that the answer says is active; 0 is none
	over     bool
	answered bool // false: the outcome is not known
}

// state is what a machine is.
type state struct {
	value  string
	active int
	made   []uint64 // a bit for each run that was made; never changed in place
}

func (s state) has(run int) bool { return s.made[run/64]&(1<<(run%64)) != 0 }

// free lets the active run end.
func (s state) free() state {
	s.active = 0
	return s
}

// shows brings the state to one in which the machine shows that run, or none, as active.
func (s state) shows(run int) (bool, state) {
	if run == 0 {
		return true, s.free()
	}
	return s.active == run, s
}

// step reports whether the answer is right in a state, and gives the state after it.
func step(s state, in input) (bool, state) {
	switch in.do {
	case look:
		ok, next := s.shows(in.active)
		return ok && s.value == in.value, next
	case write:
		s.value = in.value
		if !in.answered {
			return true, s
		}
		return s.shows(in.active)
	case create:
		if !s.has(in.run) {
			s.made = slices.Clone(s.made)
			s.made[in.run/64] |= 1 << (in.run % 64)
			s.active = in.run // whatever was active has ended
		}
		return in.is(s)
	case busy:
		return s.active == in.active && in.active != 0 && !s.has(in.run), s
	case made:
		return s.has(in.run), s
	case absent:
		return !s.has(in.run), s
	case active, ended:
		if !s.has(in.run) {
			return false, s
		}
		return in.is(s)
	}
	return false, s
}

// is reports whether the run is over, or still active, as the answer has it.
func (in input) is(s state) (bool, state) {
	switch {
	case !in.answered:
		return true, s
	case !in.over:
		return s.active == in.run, s
	case s.active == in.run:
		return true, s.free()
	}
	return true, s
}

// model returns the model of a machine of which so many runs are known.
func model(runs int) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return state{made: make([]uint64, runs/64+1)} },
		Step: func(s, in, _ any) (bool, any) { return step(s.(state), in.(input)) },
		// The same calls have made the same runs, so that made need not be compared.
		Equal: func(a, b any) bool {
			x, y := a.(state), b.(state)
			return x.value == y.value && x.active == y.active
		},
		Hash: func(s any) uint64 {
			return uint64(s.(state).active)
		},
		DescribeOperation: func(in, _ any) string { return in.(input).words },
		DescribeState: func(s any) string {
			return fmt.Sprintf("label %q, active run #%d", s.(state).value, s.(state).active)
		},
	}
}
