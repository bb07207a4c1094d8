// Package executor contains the leader's tasks: it drives runs, polls the conditions of
// machines, compresses and archives the logs of ended runs, and deletes old records.
//
// For each attempt of a step it commits the intent, does the effect, gathers fresh
// evidence that it happened, and commits the outcome (docs/concepts.md). A new leader
// that finds an intent without an outcome observes before it acts.
//
// It has no durable state of its own: everything is rebuilt from a View when a term
// begins. It must not decide how an outcome changes a run (the FSM does), and it must
// reach hardware only through a provider.
package executor
