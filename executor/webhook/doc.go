// Package webhook posts events to the URLs of webhooks, at least once and in order. Each
// event is a CloudEvent with a signature that the receiver can check (docs/events.md).
//
// It owns the messages and their signatures, and the leader task that posts them. It must not
// control access to webhooks, and it keeps no state of its own: the position of each webhook is
// replicated.
package webhook
