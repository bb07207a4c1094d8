package harness

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/holdfast-metal/holdfast/executor/runs"
	"github.com/holdfast-metal/holdfast/proto/holdfast/stepkind"
)

// Failpoints are the places where a peer can be made to kill or stop itself: each boundary
// of each kind of step. None is armed at first. For each one, a file tells the peers
// whether it was reached before: see cmd/holdfast/serve/failpoint_on.go.
type Failpoints struct{ dir string }

// Failpoint is one of them.
type Failpoint struct {
	Boundary runs.Boundary
	Kind     string // of step
	Stop     bool   // the peer stops itself (SIGSTOP) instead of dying
}

func allFailpoints() []Failpoint {
	var all []Failpoint
	for _, kind := range stepkind.Names() {
		for _, b := range runs.Boundaries() {
			all = append(all, Failpoint{b, kind, false}, Failpoint{b, kind, true})
		}
	}
	return all
}

func newFailpoints(dir string) (Failpoints, error) {
	f := Failpoints{dir: dir}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return f, err
	}
	for _, p := range allFailpoints() {
		if err := os.WriteFile(f.file(p), nil, 0o600); err != nil {
			return f, err
		}
	}
	return f, nil
}

func (f Failpoints) file(p Failpoint) string {
	return filepath.Join(f.dir, fmt.Sprintf("%s-%s-%v", p.Boundary, p.Kind, p.Stop))
}

func (f Failpoints) environment() string {
	var points []string
	for _, p := range allFailpoints() {
		how := "@"
		if p.Stop {
			how = "!"
		}
		points = append(points, string(p.Boundary)+"/"+p.Kind+how+f.file(p))
	}
	return "HOLDFAST_FAILPOINT=" + strings.Join(points, ",")
}

// Arm makes the next peer that reaches the failpoint die or stop there. Peers that reach it
// later continue.
func (f Failpoints) Arm(p Failpoint) error { return os.Remove(f.file(p)) }

// Reached reports whether a peer has reached it since it was armed, and the id of its
// process if that is known.
func (f Failpoints) Reached(p Failpoint) (pid int, ok bool) {
	b, err := os.ReadFile(f.file(p))
	if err != nil {
		return 0, false
	}
	pid, err = strconv.Atoi(strings.TrimSpace(string(b)))
	return pid, err == nil
}

// Disarm disables the failpoint, and reports whether it was reached.
func (f Failpoints) Disarm(p Failpoint) (reached bool, err error) {
	file, err := os.OpenFile(f.file(p), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, os.ErrExist) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	return false, file.Close()
}
