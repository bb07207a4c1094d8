package machineapi

import (
	"fmt"
	"strconv"
	"strings"
)

// millicores parses "8000m". A bare "8" is also 8 millicores (docs/clients.md, 000).
func millicores(s string) (int64, error) {
	n, err := strconv.ParseInt(strings.TrimSuffix(s, "m"), 10, 64)
	if err != nil || n < 0 || n > maxCount {
		return 0, fmt.Errorf("want millicores as in 8000m, not %.20q", s)
	}
	return n, nil
}

// mebibytes parses memory in Ki, Mi, Gi or bare MiB.
func mebibytes(s string) (int64, error) {
	digits, shift := s, 0
	switch {
	case strings.HasSuffix(s, "Ki"):
		shift = -10
	case strings.HasSuffix(s, "Gi"):
		shift = 10
	}
	for _, unit := range []string{"Ki", "Mi", "Gi"} {
		digits = strings.TrimSuffix(digits, unit)
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n < 0 || n > maxCount || len(s)-len(digits) > 2 {
		return 0, fmt.Errorf("want memory in Ki, Mi or Gi as in 16Gi, not %.20q", s)
	}
	if shift < 0 {
		return n >> -shift, nil
	}
	return n << shift, nil
}

// maxCount bounds the numbers that agents report.
const maxCount = 1 << 40

// manyMiB is more memory than any machine has, in MiB. A larger number is in bytes, which
// some agents send.
const manyMiB = 1 << 27

func memoryMiB(n number) int64 {
	if n >= manyMiB {
		return int64(n) >> 20
	}
	return int64(n)
}
