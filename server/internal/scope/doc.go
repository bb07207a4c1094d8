// Package scope decides which machines and runs a caller may see. A resource outside of
// the caller's scope is reported as not found.
//
// It must not check roles: package auth does that before a handler runs. The FSM checks
// the scope of commands.
package scope
