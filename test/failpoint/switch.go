package failpoint

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Switches arm points of a cluster that is running, each by a file: as long as it is there, nothing
// happens at the point.
type Switches struct{ dir string }

// NewSwitches returns the files of some points in a directory, so that none is armed.
func NewSwitches(dir string, names ...string) (Switches, error) {
	s := Switches{dir: dir}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return s, fmt.Errorf("make failpoint switches: %w", err)
	}
	for _, n := range names {
		if err := os.WriteFile(s.file(n), nil, 0o600); err != nil {
			return s, fmt.Errorf("make failpoint switches: %w", err)
		}
	}
	return s, nil
}

func (s Switches) file(name string) string { return filepath.Join(s.dir, name) }

// Environment is what peers need to have in theirs, for points at which they die.
func (s Switches) Environment(names ...string) string {
	all := make([]string, 0, len(names))
	for _, n := range names {
		all = append(all, n+"@"+s.file(n))
	}
	return "HOLDFAST_FAILPOINT=" + strings.Join(all, ",")
}

// StopEnvironment is Environment for points at which peers stop themselves (SIGSTOP), until
// somebody lets them go on.
func (s Switches) StopEnvironment(names ...string) string {
	return strings.ReplaceAll(s.Environment(names...), ",", "=stop,") + "=stop"
}

// Arm makes the next peer that comes to a point die there, or stop.
func (s Switches) Arm(name string) error { return os.Remove(s.file(name)) }

// Fired reports whether somebody has died or stopped at a point since it was armed.
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

// Disarm makes sure that nobody dies at a point any more, and says whether somebody has.
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
