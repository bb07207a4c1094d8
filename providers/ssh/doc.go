// Package sshexec drives hosts over SSH: durable commands, what can be seen of a host, its network,
// its reboot. It is the host's half of the provider kind datacenter, and a provider by itself for
// machines without a BMC.
//
// It owns connections and what it keeps on a host (host/*.sh, below Config.StateDir there). It must
// not know runs, plans, the FSM or the cluster, it retries no effect, and it keeps no secret longer
// than a login takes.
//
// # How a command is started once
//
// A session runs a small agent (host/agent.sh) that answers requests. StartCommand first stages
// what is to run in a directory of its own, which changes nothing, and then has a supervisor
// started: as a transient systemd unit named after the attempt's token, or, where there is no
// systemd, as a process of its own session. The supervisor makes the claim, a file made by link(2)
// that exists once or not at all, and only then runs the job as its child. Any number of starts of
// a token by any number of leaders therefore leads to one process:
//
//   - killed before the claim: nothing was started, and the next start may;
//   - killed after the claim: never started again; the command has failed, and the reason says why;
//   - the host reboots: the claim is synced to the disk before the job runs and holds the boot id,
//     so the command has failed;
//   - the connection is lost while starting: StartCommand asks again over a new one, until it is
//     known or too late to have happened;
//   - a command that is killed before it was started leaves a tombstone in place of the claim: a
//     start that comes later does nothing.
//
// # In time
//
// The not-after time of an effect is checked right before its line is written, and once more by the
// host: the agent tells the host's clock, the time since it booted, in each answer to a ping, and
// the effect's line says until when by that clock. Only rates are compared, no two clocks have to
// agree. What comes late for any reason, a lost packet, a stopped process, a key exchange, is
// refused by the host.
package sshexec
