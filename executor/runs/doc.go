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
