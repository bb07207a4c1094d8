// Package mixed runs peers of an earlier build and of this one in one cluster, as a rolling
// upgrade does, and back.
//
// It defines the mixtures and the rules for each. It must not work around faults of the
// earlier build.
package mixed
