// Package run has the commands of runs, and of waves, which are runs on several machines.
//
// It must not drive a run or a wave: the leader does.
package run
