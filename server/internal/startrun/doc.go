// Package startrun prepares the command that starts a run: it adds the defaults of this peer,
// whether the machine's provider has the capabilities that the plan needs, and whether the image
// and the cluster that the caller names exist, if the provider uses those of Holdfast. The FSM
// cannot know them, because they depend on the configuration of the peer.
//
// It must not refuse a run because of the state: the FSM does that within one Apply.
package startrun
