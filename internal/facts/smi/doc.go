// Package smi asks nvidia-smi for the state of the GPUs.
//
// It owns the program: its arguments, its answers, and what to do when it hangs, which it does when
// a GPU has fallen off the bus, in a way that not even SIGKILL ends. It must not let anybody wait
// for that: Monitor asks in a loop of its own and others take what is there.
package smi
