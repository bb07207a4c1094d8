// Package demo implements the command "demo": it starts three peers, runs a plan on a fleet of fake
// machines, and kills the leader in the middle.
//
// It owns the sequence of the demo, its output, and the comparison of the record with the effects
// that the fake hardware counted. The hardware runs in this process, so that it survives every peer
// and counts independently of them. The package must not know how a peer works.
package demo
