// Package overlay builds the product with changed sources, without changing the product. So
// the product needs no switches for tests that break it on purpose.
//
// A change that no longer matches the sources is an error, and is never skipped.
package overlay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Overlay is a set of changed files.
type Overlay struct {
	root  string            // of the repository
	files map[string]string // path relative to root → content
}

// New returns an Overlay without changes for the repository at root.
func New(root string) *Overlay { return &Overlay{root: root, files: map[string]string{}} }

// Root returns the root of the repository that contains dir.
func Root(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	for ; err == nil; dir = filepath.Dir(dir) {
		if _, serr := os.Stat(filepath.Join(dir, "go.work")); serr == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			err = errors.New("no go.work found")
		}
	}
	return "", fmt.Errorf("find the root of the repository: %w", err)
}

// Read returns a file with the changes so far. The path is relative to the repository's root.
func (o *Overlay) Read(path string) (string, error) {
	if text, ok := o.files[path]; ok {
		return text, nil
	}
	b, err := os.ReadFile(filepath.Join(o.root, filepath.FromSlash(path)))
	if err != nil {
		return "", fmt.Errorf("read %s: %w", path, err)
	}
	return string(b), nil
}

// Set replaces or adds a file.
func (o *Overlay) Set(path, text string) { o.files[path] = text }

// Patch replaces a piece of a file. The piece must occur exactly once.
func (o *Overlay) Patch(path, before, after string) error {
	text, err := o.Read(path)
	if err != nil {
		return err
	}
	if n := strings.Count(text, before); n != 1 {
		return fmt.Errorf("patch %s: the text to replace occurs %d times, want once: "+
			"the code has changed, and the patch must follow it:\n%s", path, n, before)
	}
	o.Set(path, strings.Replace(text, before, after, 1))
	return nil
}

// Files returns the product's Go files in a folder of the repository, without tests.
func (o *Overlay) Files(folder string) ([]string, error) {
	var all []string
	err := filepath.WalkDir(filepath.Join(o.root, folder), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		rel, err := filepath.Rel(o.root, path)
		all = append(all, filepath.ToSlash(rel))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list the sources in %s: %w", folder, err)
	}
	return all, nil
}

// Write writes the changed files into a directory, and returns the path of the file for `go
// build -overlay`.
func (o *Overlay) Write(dir string) (string, error) {
	replace := map[string]string{}
	for path, text := range o.files {
		to := filepath.Join(dir, "src", filepath.FromSlash(path))
		if err := os.MkdirAll(filepath.Dir(to), 0o750); err != nil {
			return "", fmt.Errorf("write overlay: %w", err)
		}
		if err := os.WriteFile(to, []byte(text), 0o600); err != nil {
			return "", fmt.Errorf("write overlay: %w", err)
		}
		replace[filepath.Join(o.root, filepath.FromSlash(path))] = to
	}
	data, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", fmt.Errorf("write overlay: %w", err)
	}
	file := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		return "", fmt.Errorf("write overlay: %w", err)
	}
	return file, nil
}

// Go runs a go command, such as build or test, with the changes. It writes the overlay into
// dir. The error contains the output.
func (o *Overlay) Go(ctx context.Context, dir string, args ...string) error {
	file, err := o.Write(dir)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "go",
		append([]string{args[0], "-buildvcs=false", "-overlay", file}, args[1:]...)...)
	cmd.Dir = o.root
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return nil
}
