// Package ironiclab runs Debian's Ironic with fake hardware: its configuration, its database, the
// command lines of its programs, and a client. The provider's tests against a real Ironic use it
// (make e2e-ironic), and `holdfast-bench runs` compares with it.
//
// It does not start long-running programs: its users have their own ways to do that. No peer uses
// it.
package ironiclab
