// Package pki has the commands that create credentials of peers and users: certificate
// authorities, certificates, gossip keys, and the files of a new cluster (docs/security.md).
//
// It owns the files: their names, their modes, that none is ever overwritten, and that each is
// written atomically. The contents of certificates belong to package issue. It must not connect
// to a cluster.
package pki
