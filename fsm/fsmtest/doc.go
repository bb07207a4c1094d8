// Package fsmtest drives an fsm.FSM in tests: a Peer feeds it entries as Raft would, a Generator
// makes random commands that fit its state, and Check and CheckStep say which invariant of
// docs/reliability.md a state, or the way from one to the next, has broken.
//
// It must not be linked into a program, and like fsm it has no clock and no randomness: a Chooser
// makes the choices, so that a failure can be played again.
package fsmtest
