// Package diskrule selects the disk of a machine that an image is written to.
//
// It parses the rule (RepaveImage.disk) and applies it: the result is exactly one disk, or
// an error with the reason. It reads no hardware and writes nothing. A rule is a
// comma-separated list of key=value conditions, all of which must hold:
//
//	name=nvme0n1      the kernel's name, with or without /dev/
//	serial=S4EV…      the serial number
//	wwn=0x5000c5…     the world wide name; 0x, naa. and eui. in front make no difference
//	model=*PM983*     the model; * matches anything, case is ignored
//	min_size=400G     the minimum size: bytes, or K M G T (1000) and Ki Mi Gi Ti (1024)
//	max_size=2T       the maximum size
//	rotational=false  whether it is rotational
//	by=smallest       the smallest (or largest) of the disks that qualify
//
// An empty rule selects the only disk that an image can be written to. Read-only and
// removable disks are never selected.
package diskrule

import (
	"fmt"
	"strings"
)

// Disk describes one disk.
type Disk struct {
	Name       string `json:"name"` // the kernel's name: sda, nvme0n1
	Serial     string `json:"serial,omitempty"`
	WWN        string `json:"wwn,omitempty"`
	Model      string `json:"model,omitempty"`
	SizeBytes  uint64 `json:"size_bytes"`
	Rotational bool   `json:"rotational"`
	ReadOnly   bool   `json:"read_only,omitempty"`
	Removable  bool   `json:"removable,omitempty"`
	Remote     string `json:"remote,omitempty"` // why it is not known to be local; "" if it is
}

// String returns a description of the disk in one line.
func (d Disk) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s (%s", d.Name, Size(d.SizeBytes))
	for _, part := range []struct{ name, value string }{{"model", d.Model}, {"serial", d.Serial}, {"wwn", d.WWN}} {
		if part.value != "" {
			fmt.Fprintf(&b, ", %s %s", part.name, part.value)
		}
	}
	switch {
	case d.ReadOnly:
		b.WriteString(", read-only")
	case d.Removable:
		b.WriteString(", removable")
	case d.Rotational:
		b.WriteString(", rotational")
	}
	b.WriteByte(')')
	return b.String()
}
