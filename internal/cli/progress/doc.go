// Package progress shows the progress of runs: as a block of lines that is redrawn on a
// terminal, or as one line for each transition in a pipe. It owns the wording of both and reads
// nothing but runs.
package progress
