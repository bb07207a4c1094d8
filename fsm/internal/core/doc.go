// Package core has the replicated state, a set of tables, and the transaction in which a command
// changes it: its clock, feature level and leases. It must not know the rules of a resource.
package core
