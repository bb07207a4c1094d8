package facts

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
)

// Memory is the memory of a machine.
type Memory struct {
	TotalMiB     int64
	AvailableMiB int64 // usable without swapping
}

// ReadMemory reads /proc/meminfo.
func ReadMemory(fsys fs.FS) (Memory, error) {
	text, err := read(fsys, "proc/meminfo")
	if err != nil {
		return Memory{}, fmt.Errorf("read the memory: %w", err)
	}
	return parseMemory(text)
}

func parseMemory(text string) (Memory, error) {
	kib := make(map[string]int64)
	for l := range strings.Lines(text) {
		name, rest, ok := strings.Cut(l, ":")
		if !ok {
			continue
		}
		number, _ := strings.CutSuffix(strings.TrimSpace(rest), " kB")
		if n, err := strconv.ParseInt(number, 10, 63); err == nil && n >= 0 {
			kib[name] = n
		}
	}
	m := Memory{TotalMiB: kib["MemTotal"] / 1024}
	if m.TotalMiB <= 0 {
		return Memory{}, errors.New("read the memory: /proc/meminfo has no MemTotal")
	}
	available, ok := kib["MemAvailable"]
	if !ok { // before Linux 3.14
		available = kib["MemFree"] + kib["Buffers"] + kib["Cached"]
	}
	m.AvailableMiB = min(max(available/1024, 0), m.TotalMiB)
	return m, nil
}

// Utilization returns the share of memory in use, in percent.
func (m Memory) Utilization() float64 {
	if m.TotalMiB <= 0 {
		return 0
	}
	// Divide first: otherwise huge sizes yield slightly more than 100.
	return 100 * (float64(m.TotalMiB-m.AvailableMiB) / float64(m.TotalMiB))
}
