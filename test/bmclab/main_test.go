//go:build linux

package bmclab

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"
)

// bench is set once by TestMain, before any test. why is the reason if there is none.
var (
	bench *Bench
	why   string
)

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	if os.Getenv("E2E_BMC") == "" {
		why = "needs Debian packages: run make e2e-bmc"
		return m.Run()
	}
	b, err := Open(context.Background())
	if err != nil {
		fmt.Fprintln(os.Stderr, "NOT TESTED:", err)
		return 1
	}
	bench = b
	defer func() { _ = b.Close() }()
	return m.Run()
}

// open returns a lab for the test, or skips the test with the reason.
func open(t *testing.T) *Lab {
	t.Helper()
	if bench == nil {
		t.Skip("NOT TESTED: " + why)
	}
	return bench.Lab(t)
}
