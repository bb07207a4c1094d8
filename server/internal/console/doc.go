// Package console attaches callers to the consoles that runs keep open. A console is open on
// the leader, so another peer forwards the stream to it.
//
// It must not open consoles or know how a machine's console works: see Consoles.
package console
