package mutant

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestUnitTestsExist checks that the unit tests of mutants are in their packages. Otherwise go test
// would run none and succeed.
func TestUnitTestsExist(t *testing.T) {
	all := []unitTest{adoptOutput(), staleCommands()}
	for _, u := range ofRecord() {
		all = append(all, u.test)
	}
	for _, u := range all {
		files, err := filepath.Glob(filepath.Join("../../..", u.dir, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for _, f := range files {
			b, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			found = found || strings.Contains(string(b), "\nfunc "+u.name+"(")
		}
		if !found {
			t.Errorf("package %s has no %s", u.dir, u.name)
		}
	}
}
