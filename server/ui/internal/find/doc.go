// Package find searches for the keyboard palette: machines by the beginning of their id, MAC
// address, serial or a label, runs by the beginning of their id, and plans by a part of their id.
//
// It owns the endpoint and the limits of its answers. It must not decide which records a caller
// may see: its sources do.
package find
