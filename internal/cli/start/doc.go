// Package start starts runs and waves for the commands of several resources: it shows the effects
// of a plan, asks for the confirmation, and waits until a run has ended.
//
// It must not decide whether a run may start: the server does.
package start
