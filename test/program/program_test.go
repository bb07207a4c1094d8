package program

import (
	"os"
	"strings"
	"sync"
	"testing"
)

// TestConcurrentBuilds checks that two concurrent builds each return a program at its own path.
func TestConcurrentBuilds(t *testing.T) {
	bmcServer := Build{Package: "test/bmclab/bmcserver"}
	dirs := [2]string{t.TempDir(), t.TempDir()}
	var all sync.WaitGroup
	for _, dir := range dirs {
		all.Go(func() {
			path, err := bmcServer.Into(t.Context(), dir)
			if err != nil {
				t.Error(err)
				return
			}
			if fi, err := os.Stat(path); err != nil || fi.Mode()&0o111 == 0 || !strings.HasPrefix(path, dir) {
				t.Errorf("%s: got mode %v, error %v, want an executable in %s", path, fi.Mode(), err, dir)
			}
		})
	}
	all.Wait()
}

func TestErrorHasOutputOfGo(t *testing.T) {
	_, err := Build{Package: "test/program/none"}.Into(t.Context(), t.TempDir())
	if err == nil || !strings.Contains(err.Error(), "test/program/none") {
		t.Errorf("build of a missing package: got %v, want its name", err)
	}
}
