// Package lease keeps the leases of machines, pools and services
// (docs/decisions/0012-leases-have-a-clock-of-their-own.md). Engine is the leader task
// that holds their deadlines in memory, accepts heartbeats and declares losses. Gateway
// runs on every peer and sends heartbeats to the leader in batches.
//
// Two rules make it safe:
//
//   - A heartbeat is answered only once it is committed, or if the last committed one is recent
//     enough. A new leader adds slack to every deadline, so it cannot expire such a lease early.
//     The first heartbeat of a lease makes its owner ready, so it is always committed first.
//   - Deadlines are on the lease clock (proto/internal/v1/lease.proto), which advances only while a
//     leader could receive heartbeats.
//
// So no failover, pause or step of the wall clock ever expires a lease early, and a real
// loss is declared at most 60 s after the lease's TTL.
//
// The package decides nothing about the owner of a lease: the FSM handles the effects on
// machines and pools. It must not know HTTP, gRPC services of the public API, or
// providers.
package lease
