// Package repavelab installs machines from nothing: QEMU boxes with empty disks and BMCs, a network
// of their own, three peers, firmware that boots from it, and in the end an operating system that
// answers over SSH. It has tests only; run make e2e-repave.
package repavelab
