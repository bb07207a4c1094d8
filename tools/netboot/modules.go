package main

import (
	"debug/elf"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
)

// pick returns the paths of modules and their dependencies, dependencies first, and the
// names of missing modules.
func pick(tree string, wanted []string) (paths, absent []string, err error) {
	where := map[string]string{}
	err = filepath.WalkDir(tree, func(path string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".ko") {
			where[plain(strings.TrimSuffix(filepath.Base(path), ".ko"))] = path
		}
		return err
	})
	if err != nil {
		return nil, nil, fmt.Errorf("find modules: %w", err)
	}
	if len(where) == 0 {
		return nil, nil, fmt.Errorf("find modules in %s: no .ko found: compressed modules are not supported", tree)
	}
	seen := map[string]bool{}
	var add func(name string) error
	add = func(name string) error {
		name = plain(name)
		if seen[name] {
			return nil
		}
		seen[name] = true
		path, ok := where[name]
		if !ok {
			absent = append(absent, name)
			return nil
		}
		hard, soft, err := needs(path)
		if err != nil {
			return err
		}
		for _, n := range hard {
			if err := add(n); err != nil {
				return err
			}
		}
		for _, n := range soft {
			if err := add(n); err != nil {
				return err
			}
		}
		paths = append(paths, path)
		return nil
	}
	for _, name := range wanted {
		if err := add(name); err != nil {
			return nil, nil, err
		}
	}
	return paths, absent, nil
}

// plain returns the kernel's form of a module's name.
func plain(name string) string { return strings.ReplaceAll(strings.TrimSpace(name), "-", "_") }

// needs reads the section .modinfo of a module: depends=a,b and softdep=pre: a b post: c.
func needs(path string) (hard, soft []string, err error) {
	f, err := elf.Open(path)
	if err != nil {
		return nil, nil, fmt.Errorf("read module %s: %w", path, err)
	}
	defer func() { _ = f.Close() }()
	section := f.Section(".modinfo")
	if section == nil {
		return nil, nil, nil
	}
	b, err := section.Data()
	if err != nil {
		return nil, nil, fmt.Errorf("read module %s: %w", path, err)
	}
	for _, entry := range strings.Split(string(b), "\x00") {
		key, value, _ := strings.Cut(entry, "=")
		switch key {
		case "depends":
			if value != "" {
				hard = append(hard, strings.Split(value, ",")...)
			}
		case "softdep":
			_, pre, ok := strings.Cut(value, "pre:")
			if !ok {
				continue
			}
			pre, _, _ = strings.Cut(pre, "post:")
			soft = append(soft, strings.Fields(pre)...)
		}
	}
	return hard, soft, nil
}
