// Package top is holdfast top: a live view of a fleet on a terminal. It owns what is shown and what
// the keys do; what it shows comes from a Source, it asks no peer itself. It changes nothing: no
// key of it starts, cancels or sets anything.
package top
