// Package archive runs three peers that archive old runs to a real S3 server, VersityGW, in
// its own process (make e2e-s3). Every peer can read a run's log from the bucket, and an
// unreachable server affects nothing else.
//
// It has no product code, and must not inspect a peer's state.
package archive
