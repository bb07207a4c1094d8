// Package fleet serves machines: their inventory, their phases and history, the explanation
// of their state, and the view of a machine as a node (docs/concepts.md).
//
// It must not drive machines: a run does that. Agents register machines in package
// registry.
package fleet
