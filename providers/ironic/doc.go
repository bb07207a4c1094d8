// Package ironic drives machines that somebody else's OpenStack Ironic manages, through its API
// (docs/operating.md).
//
// It owns the login at that API, the microversion that is spoken, and what is written on a node:
// the image that it is to get, and under extra.holdfast the token of the attempt that installs. It
// must not know runs, plans, the FSM or the cluster, it speaks to no BMC and to no host, and it
// never waits for Ironic to finish something: that is for the executor to look at.
//
// # Which node
//
// A machine whose bmc_endpoint is ironic://NODE is the node of that name or UUID. One without a
// bmc_endpoint is the node of its own id. There is no label for it: no two machines can have the
// same bmc_endpoint, but any number of them the same label.
//
// # What Ironic knows
//
// The power state is what Ironic last saw: it looks after each change that it makes itself, and
// once a minute by default. It does not know whether a host answers, so a machine whose power is on
// counts as reachable; where that is not enough, an SshCommand through another provider has to
// tell. In the place of a boot id stands the time of the last change of power.
//
// # In time or not at all
//
// Requests leave through providers/guard. Logging in and finding the microversion go before that
// and are kept. A request that Ironic refuses because the node is locked has done nothing: the lock
// is waited for (Config.LockTime), and by then it is usually too late, so that the executor asks
// its cluster again. Ironic itself may hold a request back for some seconds before it acts on it;
// Settle covers that.
package ironic
