// Package sshexec drives hosts over SSH: durable commands, observation, network, reboot. It is the
// host part of the provider kind datacenter, and a provider by itself for machines without a BMC.
//
// It owns connections and its files on hosts (host/*.sh, installed below Config.StateDir). It must
// not know runs, plans, the FSM or the cluster. It retries no effect, and it keeps no secret longer
// than a login needs it.
//
// # How a command is started once
//
// A session runs a small agent (host/agent.sh) that answers requests. StartCommand first stages the
// job in its own directory, which changes nothing, and then starts a supervisor. The supervisor is
// a transient systemd unit named after the attempt's token or, without systemd, a process in its
// own session. It creates the claim, a file made by link(2) that exists once or not at all. Only
// then does it run the job as its child. So any number of starts of a token by any number of
// leaders leads to one process:
//
//   - killed before the claim: nothing was started, and the next start may succeed;
//   - killed after the claim: the command is never started again; it has failed, with the reason;
//   - the host reboots: the claim is on disk before the job runs and contains the boot id, so the
//     command has failed;
//   - the connection is lost during the start: StartCommand asks again over a new one, until the
//     outcome is known or it is too late for the command to begin;
//   - the command is killed before it was started: a tombstone replaces the claim, and a later
//     start does nothing.
//
// # In time
//
// The not-after time of an effect is checked right before its line is written, and again by the
// host. The agent returns the host's clock, the time since boot, with each answer to a ping. The
// line of the effect contains its limit by that clock. Only rates are compared, so the clocks need
// not agree. The host refuses an effect that is late for any reason: a lost packet, a stopped
// process, a key exchange.
package sshexec
