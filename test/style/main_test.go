// Package style holds the rules that no compiler checks: which package and which module may
// use which, that every package states what it owns, sizes, names and prose. It reads files, and
// must not run the product.
package style

import (
	"fmt"
	"os"
	"testing"
)

// TestMain runs the tests in the root of the repository, so that a finding starts with the path of
// its file.
func TestMain(m *testing.M) {
	if err := os.Chdir("../.."); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}
