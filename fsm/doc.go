// Package fsm is the replicated state: machines, plans, runs, history, events and run logs,
// and the commands that change them.
//
// The state depends only on the log. The package and those below it must not read a clock, a
// random number, a file, the network or the order of a map, nor import a package that does.
// Peers that apply the same entries then hold the same bytes (docs/reliability.md). Commands
// carry times and ids. Every rule that must hold for all peers at once is checked inside one
// Apply, and nowhere else.
//
// This package has the list of commands, the scope of their callers, and the commands about the
// cluster itself. It must not have the rules of a resource. They are functions of a transaction
// in packages below internal, each of which may use only those before it:
//
//	core      the tables, the transaction, the clock and the leases
//	events    the logs that watchers follow
//	access    tokens, secrets, signing keys and webhooks
//	trail     the audit trail
//	fleet     machines, with their nodes, agents and hardware
//	registry  pools, providers and services
//	sessions  install sessions, as stored
//	waves     the records of waves
//	runs      plans, images, runs and the start of waves
//	installs  the reports about installs, and the runs that they advance
//	leases    heartbeats and expiry
//	backup    snapshot files and restores
//
// The other packages below internal have no transaction: tables and their schemas, the form of
// texts, refusals, and rules that depend on one record alone.
//
// Records are stored in copy-on-write B-trees (docs/decisions/0003), as messages until a
// snapshot has encoded them (docs/decisions/0025). A View is a frozen copy of all records. It is
// cheap and consistent. Its messages are shared: a caller that changes one copies it first.
// Its queries are promoted from the packages of the rules.
package fsm
