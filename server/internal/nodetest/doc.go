// Package nodetest is the peer of tests: a cluster of one with a real state machine and
// without consensus. Only tests import it.
//
// It must not know the services that run on a peer.
package nodetest
