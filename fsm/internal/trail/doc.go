// Package trail has the audit trail: a chain of events in which none can be left out unnoticed. It
// must not know the commands: the caller determines the resource of each event.
package trail
