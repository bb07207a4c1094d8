// Package wave starts runs on many machines, a limited number at a time, and stops if too many
// fail. It owns the order and the counts. It stores nothing: the runs of a wave have its id as
// their request id, so another client with the id can continue it, and no machine is started
// twice.
package wave
