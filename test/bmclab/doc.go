// Package bmclab is a lab of BMCs: machines in QEMU (package chassis), OpenIPMI's ipmi_sim and a
// Redfish service as processes before them, and what stands on the wire between. Its tests hold the
// provider bmc, and clusters that use it, to what the machines have seen: make e2e-bmc.
//
// It owns how all of that is installed, started, broken and ended. It must not decide what is
// right, and nothing but its tests may use it.
package bmclab
