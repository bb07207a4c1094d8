// Package events follows events through a webhook and a watch, while the leader of three
// peers is killed: both receive all events, in order.
//
// It has no product code, and must not inspect a peer's state.
package events
