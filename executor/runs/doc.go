// Package runs drives runs on the leader.
//
// For each attempt of a step it commits the intent, does the effect, gathers fresh evidence that it
// happened, and commits the outcome (docs/concepts.md). A new leader that finds an intent without
// an outcome observes before it acts. It also commits the logs of runs, and compresses those of
// ended runs.
//
// It must not decide how an outcome changes a run (the FSM does), and it must reach hardware only
// through a provider.
package runs
