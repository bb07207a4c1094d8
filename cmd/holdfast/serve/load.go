package serve

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"github.com/holdfast-metal/holdfast/internal/cli/flagerror"
)

// load completes the configuration from the environment and the file. Flags take precedence
// over the environment, and that over the file. An unknown key of the file is an error.
func (c *Config) load(fs *pflag.FlagSet, getenv func(string) (string, bool)) error {
	given := map[string]bool{}
	fs.Visit(func(f *pflag.Flag) { given[f.Name] = true })
	var err error
	fs.VisitAll(func(f *pflag.Flag) {
		name := "HOLDFAST_" + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
		v, ok := getenv(name)
		if !ok || given[f.Name] || err != nil || f.Name == "help" {
			return
		}
		if e := fs.Set(f.Name, v); e != nil {
			err = fmt.Errorf("read %s: %w", name, flagerror.Value(f, v, e))
		}
		given[f.Name] = true
	})
	if err != nil || c.File == "" {
		return err
	}
	b, err := os.ReadFile(c.File)
	if err != nil {
		return fmt.Errorf("read configuration: %w", err)
	}
	var errs []error
	for _, err := range each(c.parse(fs, given, b)) {
		errs = append(errs, fmt.Errorf("read configuration %s: %w", c.File, err))
	}
	return errors.Join(errs...)
}

// parse sets the keys of a file that flags and environment omit.
func (c *Config) parse(fs *pflag.FlagSet, given map[string]bool, b []byte) error {
	var doc yaml.Node
	if err := yaml.Unmarshal(b, &doc); err != nil {
		return err
	}
	if len(doc.Content) == 0 {
		return nil
	}
	root := doc.Content[0]
	if root.Kind != yaml.MappingNode {
		return fmt.Errorf("line %d: want keys and values", root.Line)
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
		switch name {
		case "providers":
			err = decode[map[string]map[string]any](value, name, "a kind and options for each name", &c.Providers)
		case "oidc-issuers": // whose access tokens are accepted (docs/sign-in.md)
			err = decode[[]map[string]any](value, "oidc_issuers", "a list of issuers", &c.OIDCIssuers)
		case "archive":
			err = c.parseArchive(fs, given, value)
		default:
			err = parseFlag(fs, given, name, key, value)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// parseFlag parses a key that has a flag.
func parseFlag(fs *pflag.FlagSet, given map[string]bool, name string, key, value *yaml.Node) error {
	f := fs.Lookup(name)
	if f == nil || name == "config" || name == "help" {
		return fmt.Errorf("line %d: %w", key.Line, unknownKey(fs, key.Value))
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
func unknownKey(fs *pflag.FlagSet, key string) error {
	if key == "current" || key == "contexts" {
		return fmt.Errorf("unknown key %q: it is a file of contexts: HOLDFAST_CONFIG is the configuration of the peer; "+
			"set HOLDFAST_CONTEXTS for the contexts of the client", key)
	}
	known := append(below(fs, ""), "providers", "oidc_issuers", "archive")
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

// parseArchive parses the keys below archive: url is archive-url, and so on.
func (c *Config) parseArchive(fs *pflag.FlagSet, given map[string]bool, n *yaml.Node) error {
	if n.Kind != yaml.MappingNode {
		return fmt.Errorf("line %d: key \"archive\": want keys such as url and after", n.Line)
	}
	doc := &yaml.Node{Kind: yaml.DocumentNode, Content: []*yaml.Node{{Kind: yaml.MappingNode, Line: n.Line}}}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := *n.Content[i]
		key.Value = "archive-" + key.Value
		if strings.Contains(n.Content[i].Value, "archive") || fs.Lookup(strings.ReplaceAll(key.Value, "_", "-")) == nil {
			return fmt.Errorf("line %d: unknown key %q below \"archive\"%s", key.Line, n.Content[i].Value,
				flagerror.Suggest(n.Content[i].Value, below(fs, "archive-")))
		}
		doc.Content[0].Content = append(doc.Content[0].Content, &key, n.Content[i+1])
	}
	b, err := yaml.Marshal(doc)
	if err != nil {
		return fmt.Errorf("line %d: key \"archive\": %w", n.Line, err)
	}
	return c.parse(fs, given, b)
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

// decode decodes a value with JSON names. T is its form in the file.
func decode[T any](n *yaml.Node, key, want string, into any) error {
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
	// Package json has no type for this error, and its text names Go.
	if name, unknown := strings.CutPrefix(err.Error(), "json: unknown field "); unknown {
		name = strings.Trim(name, `"`)
		return fmt.Errorf("line %d: unknown key %q below %q%s", n.Line, name, key,
			flagerror.Suggest(name, jsonNames(reflect.TypeOf(into).Elem())))
	}
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return fmt.Errorf("line %d: key %q: %s is a %s, which does not fit", n.Line, key, wrong.Field, wrong.Value)
	}
	return fmt.Errorf("line %d: key %q: %w", n.Line, key, err)
}

// jsonNames returns the names of the fields of a struct, or of the elements of a list or map.
func jsonNames(t reflect.Type) []string {
	switch t.Kind() {
	case reflect.Slice, reflect.Map, reflect.Pointer:
		return jsonNames(t.Elem())
	case reflect.Struct:
	default:
		return nil
	}
	var names []string
	for f := range t.Fields() {
		if f.Anonymous {
			names = append(names, jsonNames(f.Type)...)
			continue
		}
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" && name != "-" {
			names = append(names, name)
		}
	}
	return names
}

// settings returns the effective settings of flags, environment and file. Keys that exist in
// the file only (providers, issuers) are omitted, because they may hold secrets. Keys and
// certificates appear as file names.
func settings(fs *pflag.FlagSet) string {
	var b strings.Builder
	fs.VisitAll(func(f *pflag.Flag) {
		if f.Name != "help" {
			fmt.Fprintf(&b, "%s: %s\n", strings.ReplaceAll(f.Name, "-", "_"), f.Value.String())
		}
	})
	return b.String()
}
