// Package chaos runs a cluster under traffic, breaks it by a schedule that a seed decides, mends it
// after each fault, and has everything checked in the end.
//
// It owns the schedule and the report. What is broken is package fault's, what is asked is package
// workload's, and what is right is package check's.
package chaos
