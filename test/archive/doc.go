// Package archive runs three peers whose old runs go to a real S3 server, VersityGW, in a process
// of its own (make e2e-s3): a run's log is read from the bucket through every peer, and a server
// that is away harms nothing but that.
//
// It owns no product code, and must not look into a peer's state.
package archive
