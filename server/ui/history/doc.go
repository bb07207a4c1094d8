// Package history keeps how busy the cluster has been: what the leader says of itself, every few
// seconds, for an hour.
//
// It owns a ring in the memory of this peer, of a fixed size, and how counts since the start of a
// leader become rates in between. Each peer asks the leader by itself, so each has the hour that it
// was up, over the change of a leader too; a peer that starts begins with nothing.
//
// It must not be asked for decisions, and none of it is replicated or kept on disk: metrics are
// what lasts (docs/operating.md).
package history
