package check

import (
	"fmt"
	"slices"

	"github.com/anishathalye/porcupine"
)

// The model of one machine, as its clients observe it: a label that is written and read,
// and runs. Each run is created once, is then active, and ends permanently some time later.
// At most one is active.
//
// The executor decides when a run ends. The model lets it end at the latest possible
// moment: when a response shows that it has ended, that the machine is free, or that
// another run was created. That is exact, because a response that shows it active can only
// come before that moment, and no other response depends on it. A plan is a machine without
// runs.
//
// A call with an unknown outcome stays open forever. The model applies it, at the latest
// after everything else. Then it changes nothing that was observed, which is equivalent to
// never.

// action is the meaning of a call in the model.
type action int

const (
	get    action = iota // the label and the active run are as given
	write                // the label becomes value; then as get, if there was a response
	create               // the run is created, or was created before
	busy                 // another run is active, and this one was not created before
	made                 // the run was created before
	absent               // the run was not created before
	active               // the run is active
	ended                // the run has ended
)

func (a action) String() string {
	return []string{"get", "write", "create", "busy", "made", "absent", "active", "ended"}[a]
}

// input is a call with its response: the model predicts nothing, it only allows.
type input struct {
	do       action
	words    string // for the picture
	value    string
	run      int // number of the call's run; 0 is none
	active   int // number of the active run in the response; 0 is none
	over     bool
	answered bool // false: the outcome is unknown
}

// state is the state of a machine.
type state struct {
	value  string
	active int
	made   []uint64 // a bit for each created run; never changed in place
}

func (s state) has(run int) bool { return s.made[run/64]&(1<<(run%64)) != 0 }

// free ends the active run.
func (s state) free() state {
	s.active = 0
	return s
}

// shows moves to a state in which the given run, or none, is active.
func (s state) shows(run int) (bool, state) {
	if run == 0 {
		return true, s.free()
	}
	return s.active == run, s
}

// step reports whether the response is right in a state, and returns the next state.
func step(s state, in input) (bool, state) {
	switch in.do {
	case get:
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
			s.active = in.run // the active run has ended
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

// is reports whether the run has ended, or is still active, as in the response.
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

// model returns the model of a machine with a number of known runs.
func model(runs int) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return state{made: make([]uint64, runs/64+1)} },
		Step: func(s, in, _ any) (bool, any) { return step(s.(state), in.(input)) },
		// The same calls have created the same runs, so made need not be compared.
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
