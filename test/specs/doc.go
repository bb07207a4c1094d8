// Package specs holds the cluster against the documents it implements, as their clients see it:
// real processes with TLS and authentication, every example of the documents and every error body
// of docs/clients.md, from any peer, and clients that go on while leaders die. It has tests only.
package specs
