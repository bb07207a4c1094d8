// Package bmclab is a lab of BMCs: machines in QEMU (package chassis), with OpenIPMI's
// ipmi_sim or a Redfish service as BMC processes, and proxies between them and Holdfast.
// Its tests compare the provider bmc, and clusters that use it, with what the machines have
// seen (make e2e-bmc).
//
// It installs, starts, breaks and stops all of these. Only its own tests may use it.
package bmclab
