// Package startrun prepares the command that starts a run: it adds the defaults of this
// peer, and whether the machine's provider has the capabilities that the plan needs. The FSM
// cannot know either of them, because they depend on the configuration of the peer.
//
// It must not refuse a run because of the state: the FSM does that within one Apply.
package startrun
