// Package pki is the verbs that make what peers and people prove themselves with: certificate
// authorities, certificates, and keys of gossip (docs/security.md).
//
// It owns the files: their names, that they are 0600, that none is ever overwritten, and that each
// appears as a whole. What is in a certificate is in package issue. It must not talk to a cluster.
package pki
