//go:build linux

package bmclab

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"
)

// bench is set by TestMain, once, before any test; why says why there is none.
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
		why = "it needs Debian packages: run make e2e-bmc"
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

// open returns a test its lab, or skips it and says why.
func open(t *testing.T) *Lab {
	t.Helper()
	if bench == nil {
		t.Skip("NOT TESTED: " + why)
	}
	return bench.Lab(t)
}
