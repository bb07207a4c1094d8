// Package chassis is a real machine for tests, in QEMU, emulated without KVM (TCG). Its
// power, boot device and virtual drive belong to a chassis that several BMCs may share.
//
// The package manages the QEMU process and records effects: Effects returns what the BMCs
// did, in order, whatever they answered. BMCs are separate processes that use a unix socket
// (Serve, Client). The package must not know Holdfast or any BMC protocol.
package chassis
