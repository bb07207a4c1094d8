// Package proc reads the processor time, the memory and the children of processes. It needs Linux.
//
// It owns the reading of /proc. It must not know the purpose of the processes.
package proc

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of processor time in /proc: USER_HZ, which is 100 on all platforms of Go.
const tick = 10 * time.Millisecond

// ProcessorTime returns the processor time of processes so far, in user and system mode.
func ProcessorTime(pids ...int) (time.Duration, error) {
	var sum time.Duration
	for _, pid := range pids {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			return 0, fmt.Errorf("read the processor time of process %d (benchmarks need Linux): %w", pid, err)
		}
		t, err := parseStat(b)
		if err != nil {
			return 0, fmt.Errorf("read the processor time of process %d: %w", pid, err)
		}
		sum += t
	}
	return sum, nil
}

// parseStat reads user and system time from /proc/PID/stat (proc(5)). The name of the process, in
// brackets, may hold anything.
func parseStat(b []byte) (time.Duration, error) {
	fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	const utime, stime = 14 - 3, 15 - 3 // the first field after the name is number 3
	if len(fields) <= stime {
		return 0, fmt.Errorf("%d fields after the name: want more", len(fields))
	}
	user, err := strconv.ParseInt(fields[utime], 10, 64)
	if err != nil {
		return 0, err
	}
	system, err := strconv.ParseInt(fields[stime], 10, 64)
	return time.Duration(user+system) * tick, err
}

// Family returns a process and its children, in any order, without grandchildren.
func Family(pid int) ([]int, error) {
	all := []int{pid}
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, fmt.Errorf("list processes (benchmarks need Linux): %w", err)
	}
	for _, name := range stats {
		b, err := os.ReadFile(name)
		if err != nil { // it has ended
			continue
		}
		fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
		if len(fields) < 2 || fields[1] != strconv.Itoa(pid) {
			continue
		}
		child, err := strconv.Atoi(filepath.Base(filepath.Dir(name)))
		if err != nil {
			return nil, fmt.Errorf("read the id of a process from %s: %w", name, err)
		}
		all = append(all, child)
	}
	return all, nil
}

// HeldMiB returns the anonymous memory of a process in MiB. Mapped files, such as bolt's log,
// belong to the page cache, which the kernel can reclaim.
func HeldMiB(pid int) (float64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, fmt.Errorf("read the memory of process %d (benchmarks need Linux): %w", pid, err)
	}
	return parseHeld(string(b))
}

func parseHeld(status string) (float64, error) {
	for line := range strings.Lines(status) {
		if rest, ok := strings.CutPrefix(line, "RssAnon:"); ok {
			kib, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 64)
			return kib / 1024, err
		}
	}
	return 0, fmt.Errorf("read RssAnon: not in the status")
}
