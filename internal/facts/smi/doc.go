// Package smi reads the state of the GPUs from nvidia-smi.
//
// It knows the program's arguments and output. The program hangs when a GPU has fallen off
// the bus, and then not even SIGKILL ends it. So Monitor runs it in its own loop, and
// callers read the last result without waiting.
package smi
