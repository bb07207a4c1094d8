// Package harness is shared by tests of real processes: a binary that can crash on purpose,
// clusters of it with fake hardware, and a judge that compares the hardware's effects with
// the record.
//
// It starts, observes and cleans up processes. It checks only the rules that hold for every
// run (docs/reliability.md, docs/concepts.md). Only tests may import it.
package harness
