package failpoint

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Switches arm points of a running cluster, each by a file: while it exists, the point does
// nothing.
type Switches struct{ dir string }

// NewSwitches creates the files of some points in a directory, so that none is armed.
func NewSwitches(dir string, names ...string) (Switches, error) {
	s := Switches{dir: dir}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return s, fmt.Errorf("create failpoint switches: %w", err)
	}
	for _, n := range names {
		if err := os.WriteFile(s.file(n), nil, 0o600); err != nil {
			return s, fmt.Errorf("create failpoint switches: %w", err)
		}
	}
	return s, nil
}

func (s Switches) file(name string) string { return filepath.Join(s.dir, name) }

// Environment returns the environment variable of peers that die at the points.
func (s Switches) Environment(names ...string) string {
	all := make([]string, 0, len(names))
	for _, n := range names {
		all = append(all, n+"@"+s.file(n))
	}
	return "HOLDFAST_FAILPOINT=" + strings.Join(all, ",")
}

// StopEnvironment is like Environment for points at which peers stop themselves (SIGSTOP).
func (s Switches) StopEnvironment(names ...string) string {
	return strings.ReplaceAll(s.Environment(names...), ",", "=stop,") + "=stop"
}

// Arm makes the next peer that reaches a point die or stop there.
func (s Switches) Arm(name string) error { return os.Remove(s.file(name)) }

// Fired reports whether a peer has died or stopped at a point since it was armed.
func (s Switches) Fired(name string) bool {
	st, err := os.Stat(s.file(name))
	return err == nil && st.Size() > 0
}

// PID returns the id of the process that has died or stopped at a point since it was armed.
func (s Switches) PID(name string) (pid int, ok bool) {
	b, err := os.ReadFile(s.file(name))
	if err != nil {
		return 0, false
	}
	pid, err = strconv.Atoi(string(b))
	return pid, err == nil
}

// Disarm disables a point, and reports whether a peer has died there.
func (s Switches) Disarm(name string) (fired bool, err error) {
	f, err := os.OpenFile(s.file(name), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, os.ErrExist) {
		return s.Fired(name), nil
	}
	if err != nil {
		return false, fmt.Errorf("disarm failpoint %s: %w", name, err)
	}
	return false, f.Close()
}
