// Package runs has the rules of plans, images and runs: a run's start, its attempts, its log and
// its effect on the machine. It must not know the reports of installers.
package runs
