// Package program builds the programs that tests start as processes. Each kind is built
// once for all test packages, because linking one takes as long as many tests.
//
// It starts nothing. Programs of other revisions and modules are built by their own tests.
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

// Build describes a program.
type Build struct {
	Package string           // relative to the root of the module; empty is cmd/holdfast
	Race    bool             // with the race detector; without it the program is static, like a release
	Tags    []string         // build tags
	Version string           // the program's version. Such a program is not shared
	Overlay *overlay.Overlay // replaced sources, as for mutants. Such a program is not shared
}

// Into returns the path of the program in dir, built from the current sources. Later
// changes of the sources do not affect it.
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
	if err := b.build(ctx, shared); err != nil { // go build skips what is up to date
		return "", err
	}
	if err := take(shared, path); err != nil {
		return "", fmt.Errorf("build %s: %w", b.Package, err)
	}
	return path, nil
}

// Holdfast returns the path of a holdfast that lasts as long as the test.
// HOLDFAST_TEST_BINARY overrides it.
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
	flags, cgo := "-s -w", "CGO_ENABLED=0" // debug information takes half the time of linking
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

// shared returns the path that all tests share for this kind of program, and locks it until
// unlock.
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
	return path, func() { _ = lock.Close() }, nil // which also unlocks it
}

// take links or copies a file to another path. A later go build writes a new file to the
// first path.
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
