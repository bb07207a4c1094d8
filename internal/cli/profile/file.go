package profile

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/holdfast-metal/holdfast/internal/misfit"
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
	if err := decode(data, &f); err != nil {
		return File{}, &codedError{2, fmt.Sprintf("read config file %s: %s", path, err)}
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return File{}, fmt.Errorf(
			"read config file %s: others can read it (mode %04o) and it may hold a token: run: chmod 600 %s",
			path, mode, path)
	}
	return f, nil
}

// aim is the remedy for a file that has no contexts.
const aim = "a file of contexts has the keys current and contexts: if it is the configuration of a peer, set " +
	"HOLDFAST_CONTEXTS to the file of contexts"

// decode reads the text of a file. Its errors name the line, and none of its values, which may be
// tokens.
func decode(text []byte, f *File) error {
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		line, why, _ := misfit.YAML(err)
		return fmt.Errorf("line %d: %s: %s", line, why, aim)
	}
	if len(doc.Content) == 0 {
		return nil
	}
	root := doc.Content[0]
	if root.Kind != yaml.MappingNode {
		return fmt.Errorf("line %d: it has no keys: %s", root.Line, aim)
	}
	var unknown []string
	line := 0
	for i := 0; i+1 < len(root.Content); i += 2 {
		if key := root.Content[i]; key.Value != "current" && key.Value != "contexts" {
			if unknown = append(unknown, key.Value); line == 0 {
				line = key.Line
			}
		}
	}
	if n := len(unknown); n > 0 {
		more := ""
		if n > 1 {
			more = fmt.Sprintf(" and %d more", n-1)
		}
		return fmt.Errorf("it is another file: line %d: unknown key %s%s: %s", line, misfit.Quote(unknown[0]), more, aim)
	}
	for i := 0; i+1 < len(root.Content); i += 2 {
		if root.Content[i].Value == "contexts" {
			if err := checkContexts(root.Content[i+1]); err != nil {
				return err
			}
		}
	}
	if err := doc.Decode(f); err != nil {
		return fmt.Errorf("line %d: a value has another form than \"holdfast context set\" writes: %s", root.Line, aim)
	}
	return nil
}

// checkContexts returns an error for a context that is none, or has an unknown key.
func checkContexts(n *yaml.Node) error {
	if n.Kind != yaml.MappingNode {
		return fmt.Errorf("line %d: contexts: want the contexts by name, as \"holdfast context set\" writes them", n.Line)
	}
	known := []string{"addrs", "token", "ca", "cert", "key"}
	for i := 0; i+1 < len(n.Content); i += 2 {
		name, c := n.Content[i].Value, n.Content[i+1]
		if c.Kind != yaml.MappingNode {
			return fmt.Errorf("line %d: contexts.%s: want keys such as addrs", c.Line, name)
		}
		for j := 0; j+1 < len(c.Content); j += 2 {
			if key := c.Content[j]; !slices.Contains(known, key.Value) {
				return fmt.Errorf("line %d: unknown key %s in contexts.%s%s", key.Line, misfit.Quote(key.Value), name,
					misfit.Unknown(key.Value, known))
			}
			if value := c.Content[j+1]; c.Content[j].Value != "addrs" && value.Kind != yaml.ScalarNode {
				return fmt.Errorf("line %d: contexts.%s.%s: want one value", value.Line, name, c.Content[j].Value)
			} else if c.Content[j].Value == "addrs" && value.Kind != yaml.SequenceNode {
				return fmt.Errorf("line %d: contexts.%s.addrs: want a list of addresses: [10.0.0.1:7400]", value.Line, name)
			}
		}
	}
	return nil
}

// CheckName returns an error if a text cannot be the name of a context: it is a part of command
// lines and of a file's name.
func CheckName(name string) error {
	if valid.MatchString(name) {
		return nil
	}
	return fmt.Errorf("context %s: want a name of 1 to 64 letters, digits, '.', '_' or '-' that begins with a letter "+
		"or a digit", misfit.Quote(name))
}

var valid = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

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
