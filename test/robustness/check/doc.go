// Package check holds what a workload has recorded against what is promised (docs/reliability.md,
// docs/concepts.md). Each check has its file, and a test in which it fails.
//
// A check must never fail on a history that a correct cluster could have produced: calls whose
// outcome is not known may or may not have happened, at any time after they were made.
package check
