// Package crash runs real clusters, three processes each, and does to them what happens to
// clusters: peers are killed at the worst moment, stopped and resumed, wiped, cut to a minority,
// started wrongly.
//
// Each test says what must hold all the same. What the fake hardware has seen is compared with the
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

// bench is set by TestMain, once, before any test.
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
		t.Skip("it takes long: run without -short")
	}
}
