package providers

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Eraser is implemented by providers whose hosts erase their own disks. The erasure runs as a
// durable command under the token of op: RemoteExecutor.CommandStatus returns its state, and its
// output holds the result for each disk (EraseReport). Erase returns an error if nothing proves
// that the host belongs to the machine.
type Eraser interface {
	Erase(ctx context.Context, op Op, m Machine, most time.Duration) error
}

// EraseReport is the output of the erase command, parsed. The command prints one line per disk,
//
//	holdfast-erase disk NAME SERIAL erased|failed HOW IN WORDS
//	holdfast-erase left NAME SERIAL WHY IN WORDS
//
// and ends with "holdfast-erase done N of M". The last line is missing if the command was cut off.
type EraseReport struct {
	Disks    []ErasedDisk
	Left     []LeftDisk // in the order of the output
	Complete bool       // the last line is present and all disks were erased
}

// ErasedDisk is the result for one disk.
type ErasedDisk struct {
	Name   string // of the device, e.g. nvme0n1
	Serial string // "-" if there is none
	Erased bool   // no block that was checked afterwards is readable any more
	How    string // the method, or the reason of the failure
}

// LeftDisk is a disk that the host left untouched.
type LeftDisk struct {
	Name   string // of the device, e.g. sdb
	Serial string // "-" if there is none
	Why    string
}

// Result formats d as evidence.
func (d LeftDisk) Result() string { return "left: " + d.Why + " (serial " + d.Serial + ")" }

// Result formats d as evidence.
func (d ErasedDisk) Result() string {
	what := "NOT erased: "
	if d.Erased {
		what = "erased: "
	}
	return what + d.How + " (serial " + d.Serial + ")"
}

const eraseMark = "holdfast-erase"

// ReadEraseReport parses the output of the erase command and ignores all other lines. If a disk
// occurs twice, the worse result counts.
func ReadEraseReport(output string) EraseReport {
	var r EraseReport
	for l := range strings.Lines(output) {
		if !strings.HasSuffix(l, "\n") {
			break // cut
		}
		w := strings.Fields(l)
		switch {
		case len(w) < 2 || w[0] != eraseMark:
		case len(w) >= 5 && w[1] == "disk":
			r.add(ErasedDisk{Name: w[2], Serial: w[3], Erased: w[4] == "erased", How: strings.Join(w[5:], " ")})
		case len(w) >= 5 && w[1] == "left":
			d := LeftDisk{Name: w[2], Serial: w[3], Why: strings.Join(w[4:], " ")}
			if !slices.Contains(r.Left, d) {
				r.Left = append(r.Left, d)
			}
		case len(w) == 5 && w[1] == "done" && w[3] == "of":
			n, err := strconv.Atoi(w[2])
			r.Complete = err == nil && w[2] == w[4] && n == len(r.Disks)
		}
	}
	for _, d := range r.Disks {
		r.Complete = r.Complete && d.Erased
	}
	return r
}

func (r *EraseReport) add(d ErasedDisk) {
	r.Complete = false // more lines follow
	for i, e := range r.Disks {
		if e.Name == d.Name {
			if e.Erased {
				r.Disks[i] = d
			}
			return
		}
	}
	r.Disks = append(r.Disks, d)
}
