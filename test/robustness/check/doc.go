// Package check compares the recorded history of a workload with the promises
// (docs/reliability.md, docs/concepts.md). Each check has its own file, and a test in which
// it fails. Package final reads the record that a settled cluster has at the end.
//
// A check must never fail on a history that a correct cluster could have produced. A call
// with an unknown outcome may or may not have been applied, at any time after it was made.
package check
