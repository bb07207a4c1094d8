// Package specs compares the cluster with the specifications that it implements, from the
// clients' point of view. It uses real processes with TLS and authentication, every example
// of the specifications and every error body in docs/clients.md, at any peer, and clients
// that continue while leaders die. It has only tests.
package specs
