package gobench

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestParse(t *testing.T) {
	got, err := parse("goos: linux\n" +
		"BenchmarkStartRun/batch=64         \t    100\t   2500 ns/op\t  39.5 ns/run\t 10000 B/op\t  172 allocs/op\n" +
		"some output\nBenchmarkGet/run \t 5\t 12.5 ns/op\nPASS\n")
	if err != nil {
		t.Fatal(err)
	}
	want := Values{"StartRun/batch=64": {"ns/op": 2500, "ns/run": 39.5, "B/op": 10000, "allocs/op": 172},
		"Get/run": {"ns/op": 12.5}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	for _, bad := range []string{"", "PASS\n", "BenchmarkX 1 many ns/op\n"} {
		if got, err := parse(bad); err == nil {
			t.Errorf("%q: got %v, want an error", bad, got)
		}
	}
}

// TestInterleave checks the order of the runs, and that a failure is reported with its output.
func TestInterleave(t *testing.T) {
	dir := t.TempDir()
	log := filepath.Join(dir, "log")
	program := func(name, last string) Binary {
		path := filepath.Join(dir, name)
		script := fmt.Sprintf("#!/bin/sh\necho %s >> %s\necho 'BenchmarkX 1 7 ns/op'\n%s\n", name, log, last)
		if err := os.WriteFile(path, []byte(script), 0o700); err != nil {
			t.Fatal(err)
		}
		return Binary{Path: path, Dir: dir}
	}
	a, b, bad := program("a", ""), program("b", ""), program("bad", "echo broken; exit 1")
	ofA, ofB, err := Interleave(t.Context(), a, b, ".", 3, time.Second)
	if err != nil || len(ofA) != 3 || len(ofB) != 3 || ofA[2]["X"]["ns/op"] != 7 {
		t.Errorf("got %v, %v, %v, want three results each", ofA, ofB, err)
	}
	order, err := os.ReadFile(log)
	if got := strings.Join(strings.Fields(string(order)), " "); err != nil || got != "a b b a a b" {
		t.Errorf("got order %q, %v, want a b b a a b", got, err)
	}
	if _, _, err := Interleave(t.Context(), a, bad, ".", 1, time.Second); err == nil ||
		!strings.Contains(err.Error(), "broken") {
		t.Errorf("got %v, want an error with the output", err)
	}
}
