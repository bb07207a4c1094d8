// Package top is holdfast top: a live view of a fleet on a terminal. It owns the screen and the
// keys. Its data comes from a Source; it asks no peer itself, and no key starts, cancels or
// changes anything.
package top
