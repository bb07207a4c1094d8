// Package fsmtest drives an fsm.FSM in tests. A Peer feeds it entries as Raft would, and a
// Generator makes random commands that fit its state. Check and CheckStep report violations
// of the invariants in docs/reliability.md, by a state or by the change from one to the next.
//
// It must not be linked into a program. Like fsm it has no clock and no randomness: a Chooser
// makes the choices, so that a failure can be replayed.
package fsmtest
