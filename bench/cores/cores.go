// Package cores limits processes to a share of a processor, such as half a core, so that a small
// machine can show how a cluster grows with its hardware.
//
// It owns the control groups that it creates. It must not know the processes.
//
// It needs a directory in which it may create control groups and move processes: the root of the
// hierarchy as root, or a delegated one. Both versions work: cpu.max of version 2,
// cpu.cfs_quota_us of version 1. taskset needs no rights, but assigns whole cores only.
package cores

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// period is the period of quotas, in microseconds. With the kernel's default of 100 ms, a peer with
// half a core would pause for 50 ms at a time.
const period = 10_000

// Groups are control groups below one of our own.
type Groups struct {
	dir  string
	v2   bool
	home string // cgroup.procs of the group that this process came from
	made []string
}

// Hierarchies returns the usual directories of control groups: version 2, then version 1.
func Hierarchies() []string {
	return []string{"/sys/fs/cgroup", "/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"}
}

// New creates a group in the first directory that has a controller of processor time.
func New(dirs ...string) (*Groups, error) {
	var errs []error
	for _, dir := range dirs {
		g, err := newIn(dir)
		if err == nil {
			return g, nil
		}
		errs = append(errs, err)
	}
	return nil, fmt.Errorf("limit the processor time of processes: %w: run this as root, or pass --cgroup with a "+
		"delegated control group", errors.Join(errs...))
}

func newIn(dir string) (*Groups, error) {
	g := &Groups{dir: filepath.Join(dir, fmt.Sprintf("holdfast-bench-%d", os.Getpid())),
		home: filepath.Join(root(dir), ownGroup(read("/proc/self/cgroup")), "cgroup.procs")}
	switch {
	case exists(filepath.Join(dir, "cpu.cfs_quota_us")):
	case strings.Contains(read(filepath.Join(dir, "cgroup.controllers")), "cpu"):
		g.v2 = true
		control := filepath.Join(dir, "cgroup.subtree_control")
		if !strings.Contains(read(control), "cpu") {
			return nil, fmt.Errorf("%s has no cpu", control)
		}
	default:
		return nil, fmt.Errorf("%s has no controller of processor time", dir)
	}
	if err := os.Mkdir(g.dir, 0o755); err != nil { //nolint:gosec // the kernel's file system
		return nil, err
	}
	if g.v2 {
		if err := write(filepath.Join(g.dir, "cgroup.subtree_control"), "+cpu"); err != nil {
			return nil, errors.Join(err, os.Remove(g.dir))
		}
	}
	return g, nil
}

// root returns the root of the hierarchy of a directory.
func root(dir string) string {
	for _, h := range slices.Backward(Hierarchies()) {
		if dir == h || strings.HasPrefix(dir, h+"/") {
			return h
		}
	}
	return dir
}

// ownGroup returns the group of this process below the root, from /proc/self/cgroup (cgroups(7)):
// that of the controller cpu, else that of version 2.
func ownGroup(file string) (path string) {
	for line := range strings.Lines(file) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) != 3 {
			continue
		}
		if slices.Contains(strings.Split(f[1], ","), "cpu") {
			return f[2]
		}
		if f[0] == "0" {
			path = f[2]
		}
	}
	return path
}

// Put moves processes into a new group with a limit in cores.
func (g *Groups) Put(name string, share float64, pids ...int) error {
	dir, quota := filepath.Join(g.dir, name), strconv.Itoa(int(share*period))
	if err := os.Mkdir(dir, 0o755); err != nil { //nolint:gosec // the kernel's file system
		return fmt.Errorf("make the control group %s: %w", name, err)
	}
	g.made = append(g.made, dir)
	var err error
	if g.v2 {
		err = write(filepath.Join(dir, "cpu.max"), quota+" "+strconv.Itoa(period))
	} else {
		err = errors.Join(write(filepath.Join(dir, "cpu.cfs_period_us"), strconv.Itoa(period)),
			write(filepath.Join(dir, "cpu.cfs_quota_us"), quota))
	}
	for _, pid := range pids {
		err = errors.Join(err, write(filepath.Join(dir, "cgroup.procs"), strconv.Itoa(pid)))
	}
	if err != nil {
		return fmt.Errorf("limit %s to %g cores: %w", name, share, err)
	}
	return nil
}

// Close moves the remaining processes to the group of this process, and removes the groups.
func (g *Groups) Close() error {
	var errs []error
	for _, dir := range append(g.made, g.dir) {
		for pid := range strings.FieldsSeq(read(filepath.Join(dir, "cgroup.procs"))) {
			if err := write(g.home, pid); err != nil && !errors.Is(err, syscall.ESRCH) {
				errs = append(errs, err)
			}
		}
		errs = append(errs, os.Remove(dir))
	}
	return errors.Join(errs...)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// read returns the content of a file, or nothing if it does not exist.
func read(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return string(b)
}

func write(path, text string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}
