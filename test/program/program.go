// Package program builds the programs that tests start as processes: each kind once, however many
// test packages want it, since to link one takes as long as many a test.
//
// It does not start anything. Programs of other revisions and other modules are built by the tests
// that want them.
package program

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/holdfast-metal/holdfast/test/overlay"
)

const module = "github.com/holdfast-metal/holdfast/"

// Build says which program to build.
type Build struct {
	Package string           // below the root of the module; empty is cmd/holdfast
	Race    bool             // with the race detector; without it the program is static, as a release is
	Tags    []string         // build tags
	Version string           // what the program says it is. Such a program is nobody else's
	Overlay *overlay.Overlay // sources that stand in for others, as mutants do. Nor is such a one
}

// Into returns the path of the program in dir, built from the sources as they are now. It stays as
// it is when they change.
func (b Build) Into(ctx context.Context, dir string) (string, error) {
	if b.Package == "" {
		b.Package = "cmd/holdfast"
	}
	path := filepath.Join(dir, filepath.Base(b.Package))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("build %s: %w", b.Package, err)
	}
	if b.Overlay != nil || b.Version != "" {
		return path, b.build(ctx, path)
	}
	shared, unlock, err := b.shared()
	if err != nil {
		return "", fmt.Errorf("build %s: %w", b.Package, err)
	}
	defer unlock()
	if err := b.build(ctx, shared); err != nil { // go build leaves alone what is up to date
		return "", err
	}
	if err := take(shared, path); err != nil {
		return "", fmt.Errorf("build %s: %w", b.Package, err)
	}
	return path, nil
}

// Holdfast returns the path of a holdfast that lasts as long as the test. HOLDFAST_TEST_BINARY
// names one that was built before.
func Holdfast(t testing.TB) string {
	t.Helper()
	if given := os.Getenv("HOLDFAST_TEST_BINARY"); given != "" {
		return given
	}
	path, err := Build{}.Into(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func (b Build) build(ctx context.Context, out string) error {
	flags, cgo := "-s -w", "CGO_ENABLED=0" // what debuggers want takes half the time of linking
	if b.Version != "" {
		flags += " -X main.version=" + b.Version
	}
	args := []string{"build", "-buildvcs=false", "-trimpath", "-ldflags", flags, "-o", out}
	if b.Race {
		args, cgo = append(args, "-race"), "CGO_ENABLED=1" // the race detector needs it
	}
	if len(b.Tags) > 0 {
		args = append(args, "-tags", strings.Join(b.Tags, ","))
	}
	if b.Overlay != nil {
		file, err := b.Overlay.Write(filepath.Join(filepath.Dir(out), "overlay"))
		if err != nil {
			return err
		}
		args = append(args, "-overlay", file)
	}
	cmd := exec.CommandContext(ctx, "go", append(args, module+b.Package)...)
	cmd.Env = append(os.Environ(), cgo)
	if said, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", b.Package, err, said)
	}
	return nil
}

// shared returns the place of all tests for this kind of program, and holds it for this process
// until unlock.
func (b Build) shared() (path string, unlock func(), err error) {
	root, err := overlay.Root(".")
	if err != nil {
		return "", nil, err
	}
	kind := append([]string{filepath.Base(b.Package)}, b.Tags...)
	if b.Race {
		kind = append(kind, "race")
	}
	dir := filepath.Join(root, "bin", "test")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", nil, err
	}
	path = filepath.Join(dir, strings.Join(kind, "-"))
	lock, err := os.OpenFile(path+".lock", os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return "", nil, err
	}
	for {
		if err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err != nil {
		return "", nil, errors.Join(fmt.Errorf("lock %s: %w", lock.Name(), err), lock.Close())
	}
	return path, func() { _ = lock.Close() }, nil // which unlocks it too
}

// take puts a file to another place as well. What go build writes to the first one later is another
// file.
func take(from, to string) error {
	if os.Link(from, to) == nil {
		return nil
	}
	text, err := os.ReadFile(from) // another file system
	if err != nil {
		return err
	}
	return os.WriteFile(to, text, 0o755)
}
