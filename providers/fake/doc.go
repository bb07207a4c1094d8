// Package fake is a fleet of machines that exist only in memory, and the provider that
// drives it. A Fleet behaves as hardware does: presses take time, hosts boot, commands
// run and die with their host, BMCs fail, hang and lie as configured. It counts every
// effect that reaches it, so that a witness can compare what happened with the record
// (docs/operating.md).
//
// There is one code path. A Provider is always a client of the fleet's HTTP API; without
// an endpoint it calls the handler of a fleet in its own process.
//
// A machine's state is computed when somebody looks, from what was done to it and the
// time: an idle machine costs a few hundred bytes and no goroutine.
//
// By convention, so that tests can choose what happens:
//
//   - commands: see compile; "exit N", "echo TEXT", "echo TEXT >&2", "sleep 1.5", "fail", "yes N",
//     "seq N", "printenv NAME", "reboot" and "poweroff" do what they say, everything
//     else prints a few lines and exits 0;
//   - an image whose name contains "corrupt" fails to install;
//   - a join to a cluster whose name contains "unreachable" fails;
//   - a network configuration that contains "unreachable" cuts the host off until it is
//     rolled back.
//
// The package must not know runs, plans, the FSM or the cluster, and the provider must
// not retry anything.
package fake
