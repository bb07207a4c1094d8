// Package crash runs real clusters of three processes, and kills, stops, resumes, wipes and
// isolates peers at the worst moments, or starts them with errors. Each test states what must still
// hold. After each run, the effects at the fake hardware are compared with the record.
// record after each run.
package crash

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/holdfast-metal/holdfast/test/crash/harness"
)

// bench is set once by TestMain, before any test.
var bench *harness.Bench

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	var err error
	if bench, err = harness.Open(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer bench.Close()
	return m.Run()
}

// long skips a test under -short.
func long(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("takes long: run without -short")
	}
}
