// Package machine has the commands of machines, and of the recorded consoles of machines.
//
// It must not start a run by itself: package start does, with its confirmation.
package machine
