// Package ironiclab is Debian's Ironic with hardware that does not exist: its configuration, its
// database, how its programs are called and what a client says to it. The tests of the provider
// against a real Ironic run on it (make e2e-ironic), and `holdfast-bench runs` compares with it.
//
// It starts no program that stays: those who use it have their own ways to start and end one. No
// peer uses it.
package ironiclab
