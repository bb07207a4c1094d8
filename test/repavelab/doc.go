// Package repavelab installs machines from scratch: QEMU boxes with empty disks and BMCs,
// their own network, three peers, firmware that boots from the network, and finally an
// operating system that answers over SSH. It has only tests; run make e2e-repave.
package repavelab
