// Package plan has the commands of plans.
//
// It must not start a run of one.
package plan
