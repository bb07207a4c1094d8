// Package executor lists the leader's tasks. Each has a package of its own:
//
//   - runs drives runs: it makes the attempts of their steps and stores their logs
//   - waves starts the runs of waves, within their limits
//   - monitor polls the conditions of machines
//   - lease tracks heartbeats and expires leases
//   - retention archives ended runs and removes old records
//   - notes stores facts about devices, and install sessions
//   - nodelog logs the changes of nodes, agents and pools
//   - webhook posts events
//   - bootstrap creates the first token of a cluster
//
// Package turnstile bounds the runs that are between two attempts.
//
// A task begins with a term and ends with it. It has no durable state of its own: everything is
// rebuilt from a View when a term begins. A task must not decide how a command changes the state
// (the FSM does), and it must reach hardware only through a provider.
package executor
