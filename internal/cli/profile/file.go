package profile

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Load reads the file. A missing file is empty. A file that other users can read is refused.
func Load(path string) (File, error) {
	var f File
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return f, nil
	}
	if err != nil {
		return f, fmt.Errorf("read config file: %w", err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return f, fmt.Errorf("read config file: %w", err)
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	dec.KnownFields(true)
	if err := dec.Decode(&f); err != nil && !errors.Is(err, io.EOF) {
		return File{}, &codedError{2, fmt.Sprintf("read config file %s: %s: a file of contexts has the keys current and "+
			"contexts; if this is the configuration of a peer, set HOLDFAST_CONTEXTS to the file of contexts", path, plain(err))}
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return File{}, fmt.Errorf(
			"read config file %s: others can read it (mode %04o) and it may hold a token: run: chmod 600 %s",
			path, mode, path)
	}
	return f, nil
}

// plain returns a YAML error without the names of Go types.
func plain(err error) string {
	var types *yaml.TypeError
	if !errors.As(err, &types) {
		return strings.TrimPrefix(err.Error(), "yaml: ")
	}
	lines := make([]string, len(types.Errors))
	for i, e := range types.Errors {
		e, _, _ = strings.Cut(e, " in type ")
		if at := strings.LastIndex(e, " into "); at > 0 && strings.Contains(e[at:], "profile.") {
			e = e[:at] + ": this is not what belongs here"
		}
		lines[i] = strings.Replace(e, "field ", "unknown key ", 1)
	}
	return strings.ReplaceAll(strings.Join(lines, "; "), " not found", "")
}

// Save replaces the file atomically, so that a crash leaves the old one.
func Save(path string, f File) error {
	data, err := yaml.Marshal(f)
	if err != nil {
		return fmt.Errorf("write config file: %w", err)
	}
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("write config file: %w", err)
	}
	tmp, err := os.CreateTemp(dir, ".config-*.yaml") // 0600
	if err != nil {
		return fmt.Errorf("write config file: %w", err)
	}
	_, werr := tmp.Write(data)
	if err := errors.Join(werr, tmp.Sync(), tmp.Close()); err != nil {
		return errors.Join(fmt.Errorf("write config file %s: %w", path, err), os.Remove(tmp.Name()))
	}
	if err := os.Rename(tmp.Name(), path); err != nil {
		return errors.Join(fmt.Errorf("write config file: %w", err), os.Remove(tmp.Name()))
	}
	return nil
}

// Context returns the context of that name, or the current one if the name is empty; the zero
// Context if there is neither.
func (f File) Context(name string) (Context, error) {
	name = cmp.Or(name, f.Current)
	if name == "" {
		return Context{}, nil
	}
	c, ok := f.Contexts[name]
	if !ok {
		return Context{}, &codedError{3, fmt.Sprintf("context %q not found: see: holdfast context list", name)}
	}
	return c, nil
}

// codedError is an error with an exit code of the command line: 2 for an invalid file, 3 for a
// context that is not found.
type codedError struct {
	code int
	msg  string
}

func (e *codedError) Error() string { return e.msg }

// ExitCode returns the exit code.
func (e *codedError) ExitCode() int { return e.code }
