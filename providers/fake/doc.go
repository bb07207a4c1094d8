// Package fake is a fleet of machines in memory, and the provider that drives it. A Fleet behaves
// like hardware: presses take time, hosts boot, commands run and die with their host. BMCs fail,
// hang and lie as configured. It counts every effect that reaches it, so that a test can compare
// these with the record (docs/operating.md).
//
// There is one code path. A Provider is always a client of the fleet's HTTP API. Without an
// endpoint it calls the handler of a fleet in its own process.
//
// The state of a machine is computed when it is read, from the effects and the time. An idle
// machine costs a few hundred bytes and no goroutine.
//
// Conventions let tests choose the outcome:
//
//   - commands: see compile; "exit N", "echo TEXT", "echo TEXT >&2", "sleep 1.5", "fail", "yes N",
//     "seq N", "printenv NAME", "reboot" and "poweroff" work as expected, everything else prints a
//     few lines and exits 0;
//   - an image whose name contains "corrupt" fails to install;
//   - a join to a cluster whose name contains "unreachable" fails;
//   - a network configuration that contains "unreachable" cuts the host off until the rollback.
//
// The package must not know runs, plans, the FSM or the cluster, and the provider must not retry
// anything.
package fake
