package facts

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
)

// maxCPUs is more than any kernel supports. A longer list is rejected.
const maxCPUs = 1 << 16

// CPUs returns the number of CPUs that are online.
func CPUs(fsys fs.FS) (int, error) {
	if n, err := countList(line(fsys, "sys/devices/system/cpu/online")); err == nil {
		return n, nil
	}
	text, err := read(fsys, "proc/cpuinfo")
	if err != nil {
		return 0, fmt.Errorf("count the CPUs: %w", err)
	}
	n := 0
	for l := range strings.Lines(text) {
		key, _, ok := strings.Cut(l, ":")
		words := strings.Fields(key) // on s390x also the number
		if ok && len(words) > 0 && words[0] == "processor" && (len(words) == 1 || isNumber(words[1])) {
			n++
		}
	}
	if n == 0 {
		return 0, errors.New("count the CPUs: none in /proc/cpuinfo")
	}
	return n, nil
}

// isNumber reports whether s is a number.
func isNumber(s string) bool {
	_, err := strconv.ParseUint(s, 10, 32)
	return err == nil
}

// countList returns the number of items in a list such as "0-3,7".
func countList(list string) (int, error) {
	n := 0
	for part := range strings.SplitSeq(list, ",") {
		from, to, isRange := strings.Cut(part, "-")
		a, err := strconv.ParseUint(from, 10, 16)
		if err != nil {
			return 0, fmt.Errorf("read the list %q: %w", list, err)
		}
		b := a
		if isRange {
			if b, err = strconv.ParseUint(to, 10, 16); err != nil {
				return 0, fmt.Errorf("read the list %q: %w", list, err)
			}
		}
		if b < a {
			return 0, fmt.Errorf("read the list %q: %d is less than %d", list, b, a)
		}
		if n += int(b - a + 1); n > maxCPUs {
			return 0, fmt.Errorf("read the list %q: more than %d CPUs", list, maxCPUs)
		}
	}
	return n, nil
}

// CPUTimes are the busy and idle times of all CPUs together since boot, in ticks.
type CPUTimes struct {
	Busy uint64
	Idle uint64
}

// ReadCPUTimes reads the first line of /proc/stat.
func ReadCPUTimes(fsys fs.FS) (CPUTimes, error) {
	text, err := read(fsys, "proc/stat")
	if err != nil {
		return CPUTimes{}, fmt.Errorf("read the CPU times: %w", err)
	}
	return parseCPUTimes(text)
}

func parseCPUTimes(text string) (CPUTimes, error) {
	first, _, _ := strings.Cut(text, "\n")
	fields := strings.Fields(first)
	if len(fields) < 5 || fields[0] != "cpu" {
		return CPUTimes{}, fmt.Errorf("read the CPU times: /proc/stat begins with %.40q", first)
	}
	var t CPUTimes
	// user nice system idle iowait irq softirq steal; guest times are included in user and
	// nice.
	for i, f := range fields[1:min(len(fields), 9)] {
		n, err := strconv.ParseUint(f, 10, 63)
		if err != nil {
			return CPUTimes{}, fmt.Errorf("read the CPU times: %w", err)
		}
		if i == 3 || i == 4 {
			t.Idle += n
		} else {
			t.Busy += n
		}
	}
	return t, nil
}

// Utilization returns the share of busy time since an earlier moment, in percent. The
// kernel sometimes lowers idle times a little; a decrease counts as zero.
func (t CPUTimes) Utilization(since CPUTimes) float64 {
	busy, idle := after(t.Busy, since.Busy), after(t.Idle, since.Idle)
	if busy+idle == 0 {
		return 0
	}
	return 100 * busy / (busy + idle)
}

func after(now, before uint64) float64 {
	if now < before {
		return 0
	}
	return float64(now - before)
}
