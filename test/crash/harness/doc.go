// Package harness is what tests of real processes share: a binary that can be crashed on purpose,
// clusters of it beside fake hardware, and a judge who compares what the hardware has seen with
// what the record says.
//
// It owns how processes are started, observed and cleaned up. It must not decide what is right for
// a test, beyond the rules that hold for every run (docs/reliability.md, docs/concepts.md), and
// nothing but tests may import it.
package harness
