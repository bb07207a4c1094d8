// Package work bounds the work of the largest commands of the Raft log. Apply holds the lock of the
// state, so one slow command stops every peer. The work is counted and not timed: a busy machine
// does not change it.
package work
