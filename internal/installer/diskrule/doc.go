// Package diskrule says which disk of a machine an image is written to.
//
// It owns the language of the rule (`RepaveImage.disk`) and the choice: exactly one disk or none,
// and then why. It looks at no hardware and writes nothing. A rule is a list of conditions that all
// have to hold, `key=value` with commas between them:
//
//	name=nvme0n1      the kernel's name, with or without /dev/
//	serial=S4EV…      the serial number
//	wwn=0x5000c5…     the world wide name; 0x, naa. and eui. in front make no difference
//	model=*PM983*     the model; * stands for anything, case makes no difference
//	min_size=400G     at least so large: bytes, or K M G T (1000) and Ki Mi Gi Ti (1024)
//	max_size=2T       at most so large
//	rotational=false  whether it turns
//	by=smallest       of those that are left, the smallest (or largest) one
//
// An empty rule means the only disk that an image can go to: read-only and removable disks are
// never chosen.
package diskrule

import (
	"fmt"
	"strings"
)

// Disk is what is known of one disk.
type Disk struct {
	Name       string `json:"name"` // the kernel's: sda, nvme0n1
	Serial     string `json:"serial,omitempty"`
	WWN        string `json:"wwn,omitempty"`
	Model      string `json:"model,omitempty"`
	SizeBytes  uint64 `json:"size_bytes"`
	Rotational bool   `json:"rotational"`
	ReadOnly   bool   `json:"read_only,omitempty"`
	Removable  bool   `json:"removable,omitempty"`
	Remote     string `json:"remote,omitempty"` // why it is not known to be local; "" if it is
}

// String is one line for people.
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
