// Package events follows what happens through a webhook and a watch, against three peers whose
// leader is killed: both hear of everything, in order.
//
// It owns no product code, and must not look into a peer's state.
package events
