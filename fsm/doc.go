// Package fsm is the replicated state: machines, plans, runs, history, events and
// run logs, and the commands that change them.
//
// It is a pure function of its log. It must not read a clock, a random number, a
// file, the network or the order of a map, and it must not import what does: two
// peers that apply the same entries hold the same bytes (docs/reliability.md). Time and ids
// come in the commands. Every rule that must hold for all peers at once is checked
// here, inside one Apply, and nowhere else.
//
// Records are kept encoded in copy-on-write B-trees (docs/decisions/0003). A View
// is a frozen copy of all of them: cheap, consistent, and the caller owns every
// message that it is given.
package fsm
