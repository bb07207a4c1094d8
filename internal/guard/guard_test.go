package guard

import (
	"strconv"
	"strings"
	"testing"
)

func TestFind(t *testing.T) {
	const file = "# all\na.b 12 # why\na.bc 3.5\nbad x\n"
	for _, tt := range []struct {
		name string
		want float64
		ok   bool
	}{{"a.b", 12, true}, {"a.bc", 3.5, true}, {"a", 0, false}, {"bad", 0, false}, {"#", 0, false}} {
		if got, err := find(file, tt.name); got != tt.want || (err == nil) != tt.ok {
			t.Errorf("%s: got %v, %v, want %v", tt.name, got, err, tt.want)
		}
	}
}

// failures is a testing.TB that counts failures.
type failures struct {
	testing.TB
	n int
}

func (f *failures) Errorf(string, ...any) { f.n++ }
func (f *failures) Logf(string, ...any)   {}

func TestCheck(t *testing.T) {
	name, budget := first(t)
	for _, tt := range []struct {
		name string
		got  float64
		want int
	}{{name, budget, 0}, {name, budget + 1, 1}, {"unknown", 0, 1}} {
		f := &failures{TB: t}
		if Check(f, tt.name, tt.got); f.n != tt.want {
			t.Errorf("%s, %v: got %d failures, want %d", tt.name, tt.got, f.n, tt.want)
		}
	}
}

// first returns the first budget, and checks the form and the uniqueness of all.
func first(t *testing.T) (name string, budget float64) {
	t.Helper()
	seen := map[string]bool{}
	for line := range strings.Lines(budgets) {
		text, _, _ := strings.Cut(line, "#")
		f := strings.Fields(text)
		if len(f) == 0 {
			continue
		}
		v, err := strconv.ParseFloat(f[len(f)-1], 64)
		if len(f) != 2 || err != nil || seen[f[0]] {
			t.Fatalf("got the line %q, want a new name and a number", line)
		}
		if seen[f[0]] = true; name == "" {
			name, budget = f[0], v
		}
	}
	return name, budget
}
