// Package waves serves waves: runs on many machines, a limited number at a time.
//
// It selects the machines of a new wave. It must not start runs: the leader does (executor/waves).
package waves
