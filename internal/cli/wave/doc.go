// Package wave starts runs on many machines, some at a time, and stops when too many fail. It owns
// the order and the counting. It keeps nothing itself: the runs of a wave have its id as their
// request id, so that whoever has the id goes on where another stopped, and no machine is started
// twice.
package wave
