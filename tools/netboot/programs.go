package main

import (
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// programs returns the programs that create the file systems for a root file system (TAR),
// from Debian's e2fsprogs and dosfstools.
func programs() []string { return []string{"mke2fs", "mkfs.fat"} }

// gather returns the programs in a directory of unpacked packages, with their libraries and
// the dynamic loader, as files of the initramfs.
func gather(tree string) ([]file, error) {
	at := map[string]string{} // by base name
	err := filepath.WalkDir(tree, func(name string, d fs.DirEntry, err error) error {
		base := filepath.Base(name)
		// The dynamic loader is linked to by its own name.
		if err == nil && !d.IsDir() && (at[base] == "" || d.Type().IsRegular()) &&
			(strings.Contains(base, ".so") || slices.Contains(programs(), base)) {
			at[base] = name
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("find programs: %w", err)
	}
	files, seen := map[string]file{}, map[string]bool{}
	var add func(base, name string, mode uint32) error
	add = func(base, name string, mode uint32) error {
		if seen[name] {
			return nil
		}
		seen[name] = true
		from, err := resolve(at, base)
		if err != nil {
			return err
		}
		b, err := os.ReadFile(from)
		if err != nil {
			return fmt.Errorf("read %s: %w", base, err)
		}
		files[name] = file{name: name, mode: mode, data: b}
		libs, loader, err := linked(from)
		if err != nil {
			return err
		}
		if loader != "" {
			if err := add(path.Base(loader), strings.TrimPrefix(loader, "/"), 0o100755); err != nil {
				return err
			}
		}
		for _, l := range libs {
			if err := add(l, "lib/"+l, 0o100644); err != nil {
				return err
			}
		}
		return nil
	}
	for _, p := range programs() {
		if err := add(p, "sbin/"+p, 0o100755); err != nil {
			return nil, err
		}
	}
	var all []file
	for _, d := range slices.Sorted(maps.Keys(dirsOf(files))) {
		all = append(all, dir(d))
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		all = append(all, files[name])
	}
	return all, nil
}

func dirsOf(files map[string]file) map[string]bool {
	all := map[string]bool{}
	for name := range files {
		for d := path.Dir(name); d != "."; d = path.Dir(d) {
			all[d] = true
		}
	}
	return all
}

// resolve follows links by name: links in packages refer to the installed paths.
func resolve(at map[string]string, base string) (string, error) {
	for range 8 {
		name, ok := at[base]
		if !ok {
			return "", fmt.Errorf("find %s: in none of the packages", base)
		}
		to, err := os.Readlink(name)
		if err != nil {
			return name, nil
		}
		base = path.Base(to)
	}
	return "", fmt.Errorf("find %s: %w", base, errors.New("its links form a loop"))
}

// linked returns the libraries that a program or library needs, and its dynamic loader.
func linked(name string) (libs []string, loader string, err error) {
	f, err := elf.Open(name)
	if err != nil {
		return nil, "", fmt.Errorf("read %s: %w", name, err)
	}
	defer func() { _ = f.Close() }()
	if libs, err = f.ImportedLibraries(); err != nil {
		return nil, "", fmt.Errorf("read the libraries of %s: %w", name, err)
	}
	for _, p := range f.Progs {
		if p.Type != elf.PT_INTERP {
			continue
		}
		b := make([]byte, p.Filesz)
		if _, err := p.ReadAt(b, 0); err != nil {
			return nil, "", fmt.Errorf("read the loader of %s: %w", name, err)
		}
		loader = strings.TrimRight(string(b), "\x00")
	}
	return libs, loader, nil
}
