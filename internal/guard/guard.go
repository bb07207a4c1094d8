// Package guard holds the budgets of the most frequent operations: their allocations, bytes and
// writes, which can be counted exactly. Tests measure them, and make bench-guard prints the table.
//
// It owns the budgets. It must not measure anything, nor hold times, which depend on the machine.
package guard

import (
	_ "embed" // budgets.txt
	"fmt"
	"strconv"
	"strings"
	"testing"
)

//go:embed budgets.txt
var budgets string

// Check fails the test if a count exceeds its budget in budgets.txt, or has none there. It logs the
// row of the table.
func Check(t testing.TB, name string, got float64) {
	t.Helper()
	budget, err := find(budgets, name)
	if err != nil {
		t.Errorf("%s: got %.6g: %v", name, got, err)
		return
	}
	t.Logf("guard: %s %.6g %.6g", name, got, budget) // tools/bench-guard.sh reads it
	if got > budget {
		t.Errorf("%s: got %.6g, want at most %.6g (internal/guard/budgets.txt)", name, got, budget)
	}
}

// find returns the budget of a name.
func find(file, name string) (float64, error) {
	for line := range strings.Lines(file) {
		text, _, _ := strings.Cut(line, "#")
		if f := strings.Fields(text); len(f) == 2 && f[0] == name {
			return strconv.ParseFloat(f[1], 64)
		}
	}
	return 0, fmt.Errorf("add %s to internal/guard/budgets.txt", name)
}
