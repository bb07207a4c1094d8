// Package chaos runs a cluster under traffic, breaks it by a schedule that depends on a
// seed, repairs it after each fault, and runs all checks at the end.
//
// It has the schedule and the report. Package fault has the faults, package workload the
// traffic, and package check the rules.
package chaos
