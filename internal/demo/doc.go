// Package demo is the command that shows in a few seconds what Holdfast is for: three peers, a
// fleet of fake machines, a plan at work on all of them, and the leader killed in the middle.
//
// It owns the story, the pictures of it, and the comparison of the record with what the fake
// hardware saw. The hardware lives in this process: it outlives every peer and is an outside
// witness. The package must not know how a peer works: it starts processes (localcluster) and talks
// to them as any client does.
package demo
