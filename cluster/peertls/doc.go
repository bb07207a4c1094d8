// Package peertls owns the certificates of a peer. It reads them from files, reloads them
// when they change, and builds the TLS configurations of the peer's listeners and
// connections (docs/security.md).
//
// A peer presents a certificate of our CA with the name
// spiffe://holdfast/<cluster>/peer/<id> of our own cluster. A client's certificate from the
// same CA is not a peer's, nor is one of another cluster.
//
// A peer may renew its certificate itself: it makes a key and asks the leader. A CA for peers only,
// which the cluster's CA has certified, signs it. That CA can certify nothing else.
//
// The package must not authorize callers; it only identifies them. It creates no
// certificates (package issue does), and keys never leave it.
package peertls
