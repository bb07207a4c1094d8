// Package webhook tells the URLs of webhooks what happens: each event that a webhook wants, at
// least once and in order, as a CloudEvent that the receiver can check (docs/events.md).
//
// It owns the filter of events, the messages and their signatures, and the leader's task that posts
// them. It does not say who may have a webhook, and keeps nothing: how far each is, is replicated.
package webhook
