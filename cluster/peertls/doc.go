// Package peertls owns the certificates of a peer: it reads them from files, reads them again when
// they change, and makes of them what the listeners and connections of the peer need
// (docs/security.md).
//
// A peer is who presents a certificate of our CA with the name
// spiffe://holdfast/<cluster>/peer/<id> of our own cluster. A client's certificate of the same CA
// is not a peer, nor is a peer of another cluster.
//
// It must not decide what anybody may do: it says who is at the other end. It makes no certificates
// (package issue does), and keys never leave it.
package peertls
