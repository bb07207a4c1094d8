package disks

import (
	"io/fs"
	"path"
	"slices"
	"strings"
)

// local lists SCSI drivers of controllers inside the machine. A trailing * matches any
// suffix.
const local = "ahci* ata_* pata_* sata_* isci mpt3sas mpt2sas mptsas mptspi mpi3mr megaraid_* smartpqi hpsa " +
	"aacraid arcmsr mvsas pm80xx hisi_sas* sym53c8xx virtio_scsi vmw_pvscsi storvsc* ufshcd*"

// remote returns the reason why a disk is not known to be local, or "". The erase script of
// the SSH provider has the same rule (providers/ssh/host/erase.sh).
func remote(root fs.FS, name string) string {
	at := path.Join("sys/block", name, "device")
	switch {
	case hasPrefix(name, "vd", "xvd", "hd", "mmcblk", "pmem"):
		return "" // of the board or the hypervisor
	case hasPrefix(name, "nvme"):
		return remoteNVMe(root, at)
	case hasPrefix(name, "sd"):
		return remoteSCSI(root, at)
	}
	return "unknown kind of device"
}

// remoteNVMe checks the transports of a namespace. With multipath it belongs to a
// subsystem, which has the controllers.
func remoteNVMe(root fs.FS, at string) string {
	paths, _ := fs.Glob(root, path.Join(at, "nvme*", "transport")) // the pattern is valid
	transports := []string{line(root, path.Join(at, "transport"))}
	for _, p := range paths {
		transports = append(transports, line(root, p))
	}
	transports = slices.DeleteFunc(transports, func(t string) bool { return t == "" })
	if len(transports) == 0 {
		return "NVMe over an unknown transport"
	}
	for _, t := range transports {
		if t != "pcie" {
			return "NVMe over " + t
		}
	}
	return ""
}

func remoteSCSI(root fs.FS, at string) string {
	units, err := fs.ReadDir(root, path.Join(at, "scsi_device"))
	if err != nil || len(units) == 0 {
		return "driver unknown"
	}
	host, _, _ := strings.Cut(units[0].Name(), ":")
	driver := line(root, "sys/class/scsi_host/host"+host+"/proc_name")
	if driver == "" {
		return "driver unknown"
	}
	if !slices.ContainsFunc(strings.Fields(local), func(pattern string) bool {
		ok, _ := path.Match(pattern, driver)
		return ok
	}) {
		return "driver " + driver
	}
	// The pattern is valid.
	phys, _ := fs.Glob(root, "sys/class/sas_device/end_device-"+host+":*/initiator_port_protocols")
	for _, p := range phys {
		if protocols := line(root, p); strings.Contains(protocols, "ssp") || strings.Contains(protocols, "stp") {
			return "SAS with another initiator"
		}
	}
	return ""
}

func hasPrefix(name string, prefixes ...string) bool {
	return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(name, p) })
}
