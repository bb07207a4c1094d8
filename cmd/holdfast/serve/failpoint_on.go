//go:build failpoint

package serve

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/holdfast-metal/holdfast/executor"
)

// boundaryHook reads HOLDFAST_FAILPOINT: one or more "<boundary>/<kind of step>@<file>", with commas between them. The
// process that reaches such a boundary and is the first to make the file kills itself, so that one peer dies once. Where the
// file is there already nothing happens: a test arms a failpoint by removing its file.
func boundaryHook() func(executor.Boundary, string) {
	files := map[string]string{} // by "<boundary>/<kind>"
	for _, point := range strings.Split(os.Getenv("HOLDFAST_FAILPOINT"), ",") {
		if point == "" {
			continue
		}
		where, file, ok := strings.Cut(point, "@")
		boundary, kind, both := strings.Cut(where, "/")
		if !ok || !both || file == "" || kind == "" || !slices.Contains(executor.Boundaries(), executor.Boundary(boundary)) {
			// Only tests are built like this, and one that crashes nothing proves nothing.
			panic(fmt.Sprintf("read HOLDFAST_FAILPOINT: %q is not <boundary>/<kind>@<file>", point))
		}
		files[where] = file
	}
	return func(b executor.Boundary, kind string) {
		file, ok := files[string(b)+"/"+kind]
		if !ok {
			return
		}
		f, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err != nil {
			return // somebody has died here, or it is not armed
		}
		_, _ = fmt.Fprintf(f, "%d\n", os.Getpid())
		_ = f.Close()
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // nothing of what comes next may happen
	}
}
