// Package lease keeps the leases of machines, pools and services
// (docs/decisions/0012-leases-have-a-clock-of-their-own.md): Engine is the leader task that holds
// their deadlines in memory, takes heartbeats and declares losses; Gateway is what every peer has
// to bring them to the leader, many in one message.
//
// Two rules make it safe. A heartbeat is answered only when it is recorded, or when one on record
// is so young that a new leader, who adds slack to every deadline, cannot be early. And time is the
// lease clock (proto/internal/v1/lease.proto): it counts only while a leader could hear. So a lease
// is never declared lost before its time, through failovers, pauses and steps of the wall clock,
// and a true loss is declared within its time and 60 s.
//
// It decides nothing about who a lease belongs to: what becomes of a machine or a pool is up to the
// FSM. It must not know HTTP, gRPC services of the public API, or providers.
package lease
