// Package ironic drives machines that an external OpenStack Ironic manages, through its API
// (docs/operating.md).
//
// It owns the login at that API, the microversion, and two records on a node: its image and, under
// extra.holdfast, the token of the attempt that installs it. It must not know runs, plans, the FSM
// or the cluster. It contacts no BMC and no host, and it never waits for Ironic to finish: the
// executor polls.
//
// # Which node
//
// A machine with bmc_endpoint ironic://NODE is the node with that name or UUID. A machine without a
// bmc_endpoint is the node whose name is the machine's id. There is no label for this, because two
// machines cannot share a bmc_endpoint, but any number can share a label.
//
// # What Ironic knows
//
// The power state is the one that Ironic last saw: it polls after each change of its own, and by
// default once a minute. It does not know whether a host answers, so a machine that is powered on
// counts as reachable. If that is not enough, an SshCommand through another provider has to check.
// The time of the last power change replaces the boot id.
//
// # In time or not at all
//
// Requests are sent through package guard. The login and the negotiation of the microversion come
// first, and are kept. A request that Ironic refuses because the node is locked has done nothing.
// The provider waits for the lock (Config.LockTime). By then the request is usually too late, so
// that the executor checks with its cluster again. Ironic itself may delay a request for some
// seconds; Settle covers that.
package ironic
