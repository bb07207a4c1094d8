// Package mixed runs peers of an earlier build and of this one in one cluster, as a rolling upgrade
// does, and back.
//
// It owns which mixtures there are and what has to hold in each. It must not mend what the earlier
// build does.
package mixed
