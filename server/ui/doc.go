// Package ui is the dashboard at /ui/. Pages are rendered by the peer that receives the
// request, from its own state.
//
// It owns the pages and the confirmations of actions. It makes no access decisions: every
// page and action calls the services of this process as the signed-in user. Reads use this
// peer's own state, so pages work without a quorum; writes go to the leader. Pages work
// without JavaScript; JavaScript keeps them up to date.
//
// It must not import the cluster's internals, read the state other than through the
// services, contact other hosts, or keep state that other peers lack.
package ui
