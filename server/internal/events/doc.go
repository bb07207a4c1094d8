// Package events serves the events of machines, pools and services: as a stream, and to
// webhooks (docs/events.md).
//
// It must not deliver events to webhooks: package executor does that on the leader. The
// transitions of runs have a stream of their own in package runs.
package events
