// Package diagnose serves the data that helps to debug a peer: the status of the cluster,
// the files of CollectDebug, and the profiles of the process. All of it works without a
// quorum.
//
// It must not change the cluster: package operator does that. None of the data contains a
// secret.
package diagnose
