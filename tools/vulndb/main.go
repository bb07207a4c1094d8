// Command vulndb writes the entries of golang.org/x/vulndb in the layout that govulncheck
// reads from files (https://go.dev/doc/security/vuln/database), for networks without
// vuln.go.dev.
//
//	vulndb ENTRIES DIR
//
// ENTRIES is the folder data/osv of the module golang.org/x/vulndb. It writes
// DIR/index/db.json, DIR/index/modules.json and DIR/ID.
package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// entry is the part of an entry that the index needs (https://ossf.github.io/osv-schema).
type entry struct {
	ID       string    `json:"id"`
	Modified time.Time `json:"modified"`
	Affected []struct {
		Package struct {
			Name string `json:"name"`
		} `json:"package"`
	} `json:"affected"`
}

// module is a line of the index: a module and its known vulnerabilities.
type module struct {
	Path  string `json:"path"`
	Vulns []vuln `json:"vulns"`
}

type vuln struct {
	ID       string    `json:"id"`
	Modified time.Time `json:"modified"`
}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: vulndb ENTRIES DIR")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "vulndb:", err)
		os.Exit(1)
	}
}

func run(entries, dir string) error {
	for _, d := range []string{"index", "ID"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			return fmt.Errorf("create the database: %w", err)
		}
	}
	files, err := filepath.Glob(filepath.Join(entries, "GO-*.json"))
	if err != nil || len(files) == 0 {
		return fmt.Errorf("find entries in %s: none found (%v)", entries, err)
	}
	known := map[string][]vuln{}
	var newest time.Time
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("read an entry: %w", err)
		}
		var e entry
		if err := json.Unmarshal(data, &e); err != nil {
			return fmt.Errorf("read entry %s: %w", file, err)
		}
		if e.Modified.After(newest) {
			newest = e.Modified
		}
		for _, a := range e.Affected {
			v := vuln{e.ID, e.Modified}
			if !slices.Contains(known[a.Package.Name], v) {
				known[a.Package.Name] = append(known[a.Package.Name], v)
			}
		}
		if err := os.WriteFile(filepath.Join(dir, "ID", e.ID+".json"), data, 0o644); err != nil {
			return fmt.Errorf("write an entry: %w", err)
		}
	}
	modules := make([]module, 0, len(known))
	for path, vulns := range known {
		modules = append(modules, module{path, vulns})
	}
	slices.SortFunc(modules, func(a, b module) int { return cmp.Compare(a.Path, b.Path) })
	if err := write(filepath.Join(dir, "index", "modules.json"), modules); err != nil {
		return err
	}
	return write(filepath.Join(dir, "index", "db.json"), map[string]time.Time{"modified": newest})
}

func write(file string, v any) error {
	data, err := json.Marshal(v)
	if err == nil {
		err = os.WriteFile(file, data, 0o644)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	return nil
}
