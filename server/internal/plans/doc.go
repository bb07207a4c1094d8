// Package plans serves plans, and probes whether the steps of a plan would succeed on a
// machine. A probe only reads: it has no effect on hardware.
//
// It must not start runs, and it must not know the kinds of providers.
package plans
