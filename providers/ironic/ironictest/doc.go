// Package ironictest is a stateful Ironic in memory, for tests without Debian's packages. It has
// nodes with Ironic's state machine, transitions that take time and hold a lock, microversions, the
// three kinds of login, and faults that can be switched on. It imitates the observed responses of
// Ironic 21.4 (2023.1).
//
// It counts the accepted requests, so that a test can compare them with the results of a provider.
// It is for tests only.
package ironictest
