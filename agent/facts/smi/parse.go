package smi

import (
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// GPU is the state of one GPU.
type GPU struct {
	Index              int
	UUID               string
	Model              string
	TotalVRAMMiB       *int64 // nil if the driver does not report it
	FreeVRAMMiB        *int64 // the same
	TemperatureCelsius *int64 // the same
	ComputeCapability  string // empty if the driver does not report it
	PIDs               []int  // of the programs that use the GPU
}

// Queries, in the order of the output's columns.
const (
	queryGPUs     = "index,uuid,name,memory.total,memory.free,temperature.gpu,compute_cap"
	queryGPUsOld  = "index,uuid,name,memory.total,memory.free,temperature.gpu" // before driver 470
	queryPrograms = "gpu_uuid,pid"
)

// parseGPUs parses the output of queryGPUs or queryGPUsOld. Values that a GPU does not
// report are "[N/A]" or similar.
func parseGPUs(text string) ([]GPU, error) {
	var gpus []GPU
	err := rows(text, 6, func(f []string) error {
		index, err := strconv.ParseUint(f[0], 10, 16)
		if err != nil {
			return fmt.Errorf("index: %w", err)
		}
		g := GPU{
			Index: int(index), UUID: f[1], Model: strings.TrimPrefix(f[2], "NVIDIA "),
			TotalVRAMMiB: number(f[3], 0, 1<<40), FreeVRAMMiB: number(f[4], 0, 1<<40),
			TemperatureCelsius: number(f[5], -273, math.MaxInt16),
		}
		if g.FreeVRAMMiB != nil && g.TotalVRAMMiB != nil {
			*g.FreeVRAMMiB = min(*g.FreeVRAMMiB, *g.TotalVRAMMiB)
		}
		if len(f) > 6 && !strings.HasPrefix(f[6], "[") {
			g.ComputeCapability = f[6]
		}
		gpus = append(gpus, g)
		return nil
	})
	return gpus, err
}

// addPrograms adds the programs in the output of queryPrograms to gpus.
func addPrograms(gpus []GPU, text string) error {
	return rows(text, 2, func(f []string) error {
		pid, err := strconv.ParseUint(f[1], 10, 31)
		if err != nil {
			return nil // "[N/A]": a program in another namespace
		}
		for i := range gpus {
			if gpus[i].UUID == f[0] {
				gpus[i].PIDs = append(gpus[i].PIDs, int(pid))
			}
		}
		return nil
	})
}

// rows calls take with the columns of each line, of which there must be at least least. A line that
// is odd, such as that of a lost GPU, costs itself only: rows returns its error if no line was
// taken.
func rows(text string, least int, take func([]string) error) error {
	taken, odd := 0, error(nil)
	r := csv.NewReader(strings.NewReader(text))
	r.FieldsPerRecord, r.TrimLeadingSpace, r.LazyQuotes = -1, true, true
	for n := 1; ; n++ {
		f, err := r.Read()
		if errors.Is(err, io.EOF) {
			if taken > 0 {
				return nil
			}
			return odd
		}
		if err != nil {
			odd = cmp.Or(odd, fmt.Errorf("read line %d of nvidia-smi: %w", n, err))
			continue
		}
		for i := range f {
			f[i] = strings.TrimSpace(f[i])
		}
		if len(f) < least {
			if strings.HasPrefix(f[0], "No ") { // "No devices were found", "No running processes found"
				continue
			}
			odd = cmp.Or(odd, fmt.Errorf("read line %d of nvidia-smi: it has %d columns, not %d: %.60q",
				n, len(f), least, strings.Join(f, ",")))
			continue
		}
		if err := take(f); err != nil {
			odd = cmp.Or(odd, fmt.Errorf("read line %d of nvidia-smi: %w", n, err))
			continue
		}
		taken++
	}
}

// number parses a whole number from least to most. It returns nil if s is not one, as "[N/A]".
func number(s string, least, most int64) *int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < least || n > most {
		return nil
	}
	return &n
}
