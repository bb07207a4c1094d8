package failpoint

import (
	"fmt"
	"path"
	"regexp"
	"strings"

	"github.com/holdfast-metal/holdfast/test/overlay"
)

// Point is a place where a peer can be made to die.
type Point struct {
	Name string
	File string // relative to the root of the module
	Line int
}

// folders returns the parts of the product with durable effects.
func folders() []string {
	return []string{
		"cluster", "executor", "fsm", "internal/archive", "internal/images", "internal/secrets", "providers", "server",
	}
}

var (
	comment = regexp.MustCompile(`^(\s*)// failpoint: ([a-z-]+)$`)
	clause  = regexp.MustCompile(`(?m)^package (\w+)$`)
)

// Arm turns every comment "// failpoint: name" into a call, and returns the points in the
// order of the files. It returns an error if a name occurs twice, or if a comment only
// resembles one.
func Arm(o *overlay.Overlay) ([]Point, error) {
	var points []Point
	seen := map[string]Point{}
	for _, folder := range folders() {
		files, err := o.Files(folder)
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			text, err := o.Read(file)
			if err != nil {
				return nil, err
			}
			lines := strings.Split(text, "\n")
			found := 0
			for i, line := range lines {
				m := comment.FindStringSubmatch(line)
				switch {
				case m == nil && strings.Contains(line, "// failpoint"):
					return nil, fmt.Errorf("%s:%d: %q is not a line \"// failpoint: name\"", file, i+1,
						strings.TrimSpace(line))
				case m == nil:
					continue
				}
				p := Point{Name: m[2], File: file, Line: i + 1}
				if other, ok := seen[p.Name]; ok {
					return nil, fmt.Errorf("failpoint %s is at %s:%d and at %s:%d: rename one of them", p.Name,
						other.File, other.Line, file, p.Line)
				}
				seen[p.Name] = p
				points, found = append(points, p), found+1
				lines[i] = fmt.Sprintf("%sfailpoint(%q)", m[1], p.Name)
			}
			if found == 0 {
				continue
			}
			pkg := clause.FindStringSubmatch(text)
			if pkg == nil {
				return nil, fmt.Errorf("%s has no package clause", file)
			}
			o.Set(file, strings.Join(lines, "\n"))
			o.Set(path.Join(path.Dir(file), "failpoint_generated.go"), "package "+pkg[1]+"\n"+code)
		}
	}
	return points, nil
}

// code is added to each armed package. HOLDFAST_FAILPOINT is "name@file", one or more
// separated by commas. The first process that reaches the point and creates the file kills
// itself, so that one peer dies, once. With "=stop" after the file it stops itself instead
// (SIGSTOP) until it is resumed.
const code = `
import (
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

var failpoints = sync.OnceValue(func() map[string]string {
	files := map[string]string{}
	for _, p := range strings.Split(os.Getenv("HOLDFAST_FAILPOINT"), ",") {
		if name, file, ok := strings.Cut(p, "@"); ok {
			files[name] = file
		}
	}
	return files
})

func failpoint(name string) {
	file, ok := failpoints()[name]
	if !ok {
		return
	}
	file, stop := strings.CutSuffix(file, "=stop")
	f, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return
	}
	_, _ = f.WriteString(strconv.Itoa(os.Getpid()))
	_ = f.Close()
	if stop {
		// Signal this thread: a signal to the process may reach another thread a moment
		// later, and execution would continue past this line.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		_, _, _ = syscall.RawSyscall(syscall.SYS_TGKILL, uintptr(os.Getpid()), uintptr(syscall.Gettid()), uintptr(syscall.SIGSTOP))
		return
	}
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}
`
