// Package events has the logs of changes that watchers follow: run events, service events, the
// news of all resources, and the history of a machine. It must not know the rule that makes a
// change.
package events
