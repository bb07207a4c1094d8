package providers

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Eraser is a host that erases its own disks, as a durable command under the op's token
// (RemoteExecutor.CommandStatus tells how far it is) that tells in its output what became of each
// (EraseReport). It refuses where nothing proves that the host is the machine's.
type Eraser interface {
	Erase(ctx context.Context, op Op, m Machine, most time.Duration) error
}

// EraseReport is what a host tells of its disks when it erases them, in the output of that command:
// a line for each disk,
//
//	holdfast-erase disk NAME SERIAL erased|failed HOW IN WORDS
//	holdfast-erase left NAME SERIAL WHY IN WORDS
//
// and in the end "holdfast-erase done N of M", which is missing when the host did not come that
// far.
type EraseReport struct {
	Disks    []ErasedDisk
	Left     []LeftDisk // in the order of the output
	Complete bool       // the last line was there, and all disks were erased
}

// ErasedDisk is what became of one disk.
type ErasedDisk struct {
	Name   string // of the device, e.g. nvme0n1
	Serial string // "-" when there is none
	Erased bool   // and nothing of what was looked at is readable any more
	How    string // it was erased, or why not
}

// LeftDisk is a disk that the host did not touch.
type LeftDisk struct {
	Name   string // of the device, e.g. sdb
	Serial string // "-" when there is none
	Why    string
}

// Result words it as evidence.
func (d LeftDisk) Result() string { return "left: " + d.Why + " (serial " + d.Serial + ")" }

// Result words it as evidence.
func (d ErasedDisk) Result() string {
	what := "NOT erased: "
	if d.Erased {
		what = "erased: "
	}
	return what + d.How + " (serial " + d.Serial + ")"
}

const eraseMark = "holdfast-erase"

// ReadEraseReport reads it from the output of the command. Other lines are passed over. Of a disk
// that is named twice the worse holds.
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
	r.Complete = false // there is more to come
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
