package flagfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"github.com/holdfast-metal/holdfast/internal/cli/flagerror"
	"github.com/holdfast-metal/holdfast/internal/misfit"
)

// Section decodes the value of a key that has no flag.
type Section func(n *yaml.Node) error

// Config describes a file.
type Config struct {
	Path string // empty: none
	// Getenv returns an environment variable, as os.LookupEnv.
	Getenv func(string) (string, bool)
	// Sections are the keys without a flag, with dashes.
	Sections map[string]Section
	// Groups are the keys whose own keys are flags with their name before them: url below archive
	// is the flag archive-url.
	Groups []string
	// Fixed has, for a flag that is true or false, the values that it gives to others. It is an
	// error to set these to another value.
	Fixed map[string]map[string]string
}

// Load sets flags from the environment and the file. Flags that were set take precedence over the
// environment, and that over the file. It returns an error that joins one for each problem of the
// file, such as an unknown key, or for each useless flag. That of a file that cannot be read wraps
// an *fs.PathError.
func Load(fs *pflag.FlagSet, c Config) error {
	if err := c.load(fs); err != nil {
		return err
	}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(c.Fixed)) {
		if fs.Lookup(name).Value.String() == "true" {
			errs = append(errs, useless(fs, name, c.Fixed[name])...)
		}
	}
	return errors.Join(errs...)
}

// useless returns an error for each of the flags that is set to another value than the one that
// the flag by gives it.
func useless(fs *pflag.FlagSet, by string, fixed map[string]string) (errs []error) {
	for _, name := range slices.Sorted(maps.Keys(fixed)) {
		f := fs.Lookup(name)
		if value := strings.Trim(f.Value.String(), "[]"); f.Changed && value != fixed[name] {
			errs = append(errs, fmt.Errorf("--%s %s: it has no effect with --%s (%s): leave one of them out",
				name, value, by, fs.Lookup(by).Usage))
		}
	}
	return errs
}

// load sets flags from the environment and the file.
func (c Config) load(fs *pflag.FlagSet) error {
	given := map[string]bool{}
	fs.Visit(func(f *pflag.Flag) { given[f.Name] = true })
	var err error
	fs.VisitAll(func(f *pflag.Flag) {
		name := "HOLDFAST_" + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
		v, ok := c.Getenv(name)
		if !ok || given[f.Name] || err != nil || f.Name == "help" {
			return
		}
		if e := fs.Set(f.Name, v); e != nil {
			err = fmt.Errorf("read %s: %w", name, flagerror.Value(f, v, e))
		}
		given[f.Name] = true
	})
	if path := fs.Lookup("config"); path != nil && c.Path == "" {
		c.Path = path.Value.String() // the environment may have set it
	}
	if err != nil || c.Path == "" {
		return err
	}
	b, err := os.ReadFile(c.Path)
	if err != nil {
		return fmt.Errorf("read configuration %w", misfit.File(c.Path, err))
	}
	var errs []error
	for _, err := range Each(c.Parse(fs, given, b)) {
		errs = append(errs, fmt.Errorf("read configuration %s: %w", c.Path, err))
	}
	return errors.Join(errs...)
}

// Each returns the errors of which one was joined, none for nil.
func Each(err error) []error {
	if err == nil {
		return nil
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var all []error
		for _, e := range joined.Unwrap() {
			all = append(all, Each(e)...)
		}
		return all
	}
	return []error{err}
}

// Parse sets the keys of a file, in YAML, that are not given yet.
func (c Config) Parse(fs *pflag.FlagSet, given map[string]bool, b []byte) error {
	var doc yaml.Node
	if err := yaml.Unmarshal(b, &doc); err != nil {
		line, why, _ := misfit.YAML(err)
		return fmt.Errorf("line %d: %s", line, why)
	}
	if len(doc.Content) == 0 {
		return nil
	}
	root := doc.Content[0]
	if root.Kind != yaml.MappingNode {
		return fmt.Errorf("line %d: it is no configuration: want keys and values, such as node_id: n1", root.Line)
	}
	var errs []error
	seen := map[string]bool{}
	for i := 0; i+1 < len(root.Content); i += 2 {
		key, value := root.Content[i], root.Content[i+1]
		name := strings.ReplaceAll(key.Value, "_", "-") // the spelling of the flag is accepted, too
		if seen[name] {
			errs = append(errs, fmt.Errorf("line %d: duplicate key %q", key.Line, key.Value))
			continue
		}
		seen[name] = true
		var err error
		section, special := c.Sections[name]
		switch {
		case special:
			err = section(value)
		case slices.Contains(c.Groups, name):
			err = c.parseGroup(fs, given, name, value)
		default:
			err = c.parseFlag(fs, given, name, key, value)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// parseFlag parses a key that has a flag.
func (c Config) parseFlag(fs *pflag.FlagSet, given map[string]bool, name string, key, value *yaml.Node) error {
	f := fs.Lookup(name)
	if f == nil || name == "config" || name == "help" {
		return fmt.Errorf("line %d: %w", key.Line, c.unknownKey(fs, key.Value))
	}
	if given[name] {
		return nil
	}
	text, err := scalar(value)
	if err != nil {
		return fmt.Errorf("line %d: key %q: %w", value.Line, key.Value, err)
	}
	if err := fs.Set(name, text); err != nil {
		return fmt.Errorf("line %d: %s: %w", value.Line, key.Value, flagerror.Value(f, text, err))
	}
	return nil
}

// unknownKey returns the error for a key that no flag has, with a suggestion.
func (c Config) unknownKey(fs *pflag.FlagSet, key string) error {
	if key == "current" || key == "contexts" {
		return fmt.Errorf("unknown key %q: it is a file of contexts: HOLDFAST_CONFIG is the configuration of the peer; "+
			"set HOLDFAST_CONTEXTS for the contexts of the client", key)
	}
	known := append(below(fs, ""), c.Groups...)
	for name := range c.Sections {
		known = append(known, strings.ReplaceAll(name, "-", "_"))
	}
	slices.Sort(known)
	return fmt.Errorf("unknown key %q%s", key, flagerror.Suggest(key, known))
}

// below returns the keys whose flags have a prefix, without it.
func below(fs *pflag.FlagSet, prefix string) []string {
	var names []string
	fs.VisitAll(func(f *pflag.Flag) {
		if name, ok := strings.CutPrefix(f.Name, prefix); ok {
			names = append(names, strings.ReplaceAll(name, "-", "_"))
		}
	})
	return names
}

// parseGroup parses the keys below a group.
func (c Config) parseGroup(fs *pflag.FlagSet, given map[string]bool, group string, n *yaml.Node) error {
	if n.Kind != yaml.MappingNode {
		return fmt.Errorf("line %d: key %q: want keys such as %s", n.Line, group, strings.Join(below(fs, group+"-"), ", "))
	}
	var errs []error
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := *n.Content[i]
		name := group + "-" + strings.ReplaceAll(key.Value, "_", "-")
		if fs.Lookup(name) == nil {
			errs = append(errs, fmt.Errorf("line %d: unknown key %q below %q%s", key.Line, key.Value, group,
				flagerror.Suggest(key.Value, below(fs, group+"-"))))
			continue
		}
		errs = append(errs, c.parseFlag(fs, given, name, &key, n.Content[i+1]))
	}
	return errors.Join(errs...)
}

// scalar returns a value in the form of a flag: lists are joined by commas.
func scalar(n *yaml.Node) (string, error) {
	switch n.Kind {
	case yaml.ScalarNode:
		return n.Value, nil
	case yaml.SequenceNode:
		parts := make([]string, 0, len(n.Content))
		for _, e := range n.Content {
			if e.Kind != yaml.ScalarNode {
				return "", errors.New("want a list of plain values")
			}
			parts = append(parts, e.Value)
		}
		return strings.Join(parts, ","), nil
	}
	return "", errors.New("want a plain value or a list of them")
}

// Decode decodes a value with JSON names. T is its form in the file.
func Decode[T any](n *yaml.Node, key, want string, into any) error {
	var tree T
	if err := n.Decode(&tree); err != nil {
		return fmt.Errorf("line %d: key %q: want %s", n.Line, key, want)
	}
	b, err := json.Marshal(tree)
	if err == nil {
		dec := json.NewDecoder(bytes.NewReader(b))
		dec.DisallowUnknownFields()
		err = dec.Decode(into)
	}
	if err == nil {
		return nil
	}
	return fmt.Errorf("line %d: %s: %s", n.Line, key, misfit.Struct(err, into))
}
