// Package executor does the leader's work: it drives runs, reconciles conditions
// and compresses the logs of runs that have ended.
//
// For each attempt of a step it commits the intent, does the effect, gathers fresh
// evidence that it happened, and commits the outcome (docs/concepts.md). A new leader that
// finds an intent without an outcome observes before it acts.
//
// It keeps no state of its own that matters: everything is rebuilt from a View when
// a term begins. It must not decide what an outcome means for a run (the FSM does),
// and it must not touch hardware but through a provider.
package executor
