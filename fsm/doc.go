// Package fsm is the replicated state: machines, plans, runs, history, events and run logs,
// and the commands that change them.
//
// The state depends only on the log. The package must not read a clock, a random number, a
// file, the network or the order of a map, nor import a package that does. Peers that apply
// the same entries then hold the same bytes (docs/reliability.md). Commands carry times and
// ids. Every rule that must hold for all peers at once is checked inside one Apply, and
// nowhere else.
//
// Records are stored encoded in copy-on-write B-trees (docs/decisions/0003). A View is a
// frozen copy of all records. It is cheap and consistent, and the caller owns every message
// it returns.
package fsm
