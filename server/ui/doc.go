// Package ui is the dashboard at /ui/: pages for people, made on the peer that is asked, from its
// own state.
//
// It owns how things look and what is asked before something is done. It decides nothing: every
// page and every action calls the services of this process in the name of who is signed in, so what
// they may see and do is the gate's to decide. Reads take this peer's state as it is, so that pages
// come up without a quorum too; writes go the way of all writes, to the leader. Pages work without
// JavaScript; with it they stay live.
//
// It must not know the cluster or read the state past the services, ask any other host for
// anything, or keep state that another peer would lack.
package ui
