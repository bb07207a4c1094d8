// Package ironictest is an Ironic in memory that keeps state, for tests without Debian's packages:
// nodes with Ironic's state machine, transitions that take time and hold a lock, microversions, the
// three kinds of login, and faults that can be switched on. It was written after what Ironic 21.4
// (2023.1) was seen to answer.
//
// It counts what it was asked for, so that a test can hold that against what a provider says. It
// must not be used by anything but tests.
package ironictest
