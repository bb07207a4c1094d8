//go:build failpoint && linux

package serve

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"github.com/holdfast-metal/holdfast/executor/runs"
)

// boundaryHook reads HOLDFAST_FAILPOINT: one or more "<boundary>/<kind of step>@<file>",
// separated by commas. The first process that reaches the boundary and creates the file kills
// itself, so one peer dies once. With "!" instead of "@" it stops itself (SIGSTOP) until it is
// resumed. If the file exists, nothing happens: a test arms a failpoint by removing its file.
func boundaryHook() func(runs.Boundary, string) {
	kill, stop := map[string]string{}, map[string]string{} // files by "<boundary>/<kind>"
	for _, point := range strings.Split(os.Getenv("HOLDFAST_FAILPOINT"), ",") {
		if point == "" {
			continue
		}
		at := strings.IndexAny(point, "@!")
		boundary, kind, ok := strings.Cut(point[:max(at, 0)], "/")
		if !ok || kind == "" || at == len(point)-1 || !slices.Contains(runs.Boundaries(), runs.Boundary(boundary)) {
			// Only tests use this build, and a test that crashes nothing proves nothing.
			panic(fmt.Sprintf("read HOLDFAST_FAILPOINT: %q is not <boundary>/<kind>@<file>", point))
		}
		files := kill
		if point[at] == '!' {
			files = stop
		}
		files[point[:at]] = point[at+1:]
	}
	return func(b runs.Boundary, kind string) {
		where := string(b) + "/" + kind
		if first(kill[where]) {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {} // nothing of what comes next may happen
		}
		if first(stop[where]) {
			stopHere()
		}
	}
}

// stopHere stops the process on this line. A signal to the process might be handled by another
// thread, and this one would run on for a millisecond or two.
func stopHere() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	_, _, _ = syscall.RawSyscall(syscall.SYS_TGKILL, uintptr(os.Getpid()), uintptr(syscall.Gettid()),
		uintptr(syscall.SIGSTOP))
}

// first creates a file and reports whether it did: another process may have been first, or the
// failpoint is not armed.
func first(file string) bool {
	if file == "" {
		return false
	}
	f, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return false
	}
	_, _ = fmt.Fprintln(f, os.Getpid()) // for a test that wants to know who it was
	_ = f.Close()
	return true
}
