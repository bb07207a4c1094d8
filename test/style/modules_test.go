package style

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// goModule is a module of go.work, as `go mod edit -json` prints it.
type goModule struct {
	dir    string
	Module struct{ Path string }
	Go     string

	Require []struct{ Path, Version string }
	Replace []struct {
		Old struct{ Path string }
		New struct{ Path, Version string }
	}
}

// moduleRules maps each module of go.work to those that it may require, of this repository. A
// program that uses the SDK takes nothing of a peer.
func moduleRules() map[string][]string {
	return map[string][]string{
		"proto":  nil,
		"client": {"proto"},
		".":      {"proto", "client"},
		"agent":  {"proto", "client", "."},
		"bench":  {"proto", "client", "."},
		"test":   {"proto", "client", "."},
	}
}

// ownModules lists the violations of the rules: a module that requires one above it, a replacement
// that another clone does not have, and a dependency of which two modules want different versions.
func ownModules(rules map[string][]string, modules []goModule) []string {
	var found []string
	report := func(format string, args ...any) { found = append(found, fmt.Sprintf(format, args...)) }
	want := map[string]map[string][]string{} // dependency → version → modules
	for _, m := range modules {
		may, ok := rules[m.dir]
		if !ok {
			report("%s: has no place in the layout of CONTRIBUTING.md", m.dir)
		}
		if full := strings.TrimSuffix(module+"/"+m.dir, "/."); m.Module.Path != full {
			report("%s: is named %s, want %s", m.dir, m.Module.Path, full)
		}
		for _, r := range append(m.Require, struct{ Path, Version string }{"go", m.Go}) {
			if want[r.Path] == nil {
				want[r.Path] = map[string][]string{}
			}
			want[r.Path][r.Version] = append(want[r.Path][r.Version], m.dir)
			if below, ok := ours(r.Path); ok && !slices.Contains(may, below) {
				report("%s: must not require %s", m.dir, below)
			}
		}
		for _, r := range m.Replace {
			below, ok := ours(r.Old.Path)
			if !ok || r.New.Version != "" || path.Join(m.dir, r.New.Path) != below {
				report("%s: must not replace %s by %s: want its directory in this repository", m.dir, r.Old.Path, r.New.Path)
			}
		}
	}
	for _, dep := range slices.Sorted(maps.Keys(want)) {
		if len(want[dep]) > 1 {
			report("%s: the modules want different versions: %v", dep, want[dep])
		}
	}
	return found
}

// goJSON runs a go command without the workspace and decodes its output.
func goJSON(t *testing.T, into any, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Env = append(os.Environ(), "GOWORK=off")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go %s: %v", strings.Join(args, " "), err)
	}
	if err := json.Unmarshal(out, into); err != nil {
		t.Fatalf("decode the output of go %s: %v", strings.Join(args, " "), err)
	}
}

// workspace returns the directories of the modules of go.work.
func workspace(t *testing.T) []string {
	t.Helper()
	var work struct{ Use []struct{ DiskPath string } }
	goJSON(t, &work, "work", "edit", "-json", "go.work")
	var dirs []string
	for _, use := range work.Use {
		dirs = append(dirs, path.Clean(use.DiskPath))
	}
	return dirs
}

// TestModulesRunOneWay reads each go.mod, and loads all packages and tests of each module without
// go.work, as a user of that module does.
func TestModulesRunOneWay(t *testing.T) {
	var modules []goModule
	for _, dir := range workspace(t) {
		m := goModule{dir: dir}
		goJSON(t, &m, "mod", "edit", "-json", path.Join(dir, "go.mod"))
		modules = append(modules, m)
		load := exec.CommandContext(t.Context(), "go", "-C", dir, "list", "-test", "-deps", "./...")
		load.Env = append(os.Environ(), "GOWORK=off")
		if out, err := load.CombinedOutput(); err != nil {
			t.Errorf("%s does not load without go.work: %v\n%s", dir, err, out)
		}
	}
	for _, f := range ownModules(moduleRules(), modules) {
		t.Error(f)
	}
}

// TestEachModuleIsChecked compares the modules of the repository with the lists of the Makefile.
// Those below tools/ are checked by the targets that build them.
func TestEachModuleIsChecked(t *testing.T) {
	text, err := os.ReadFile("Makefile")
	if err != nil {
		t.Fatal(err)
	}
	listed := func(name string) []string {
		var dirs []string
		for dir := range strings.FieldsSeq(string(regexp.MustCompile(`(?m)^` + name + ` := (.*)$`).FindSubmatch(text)[1])) {
			dirs = append(dirs, path.Clean(dir))
		}
		slices.Sort(dirs)
		return dirs
	}
	inside := workspace(t)
	slices.Sort(inside)
	if diff := cmp.Diff(inside, listed("MODULES")); diff != "" {
		t.Errorf("MODULES in the Makefile (-go.work +Makefile):\n%s", diff)
	}
	var outside []string
	walk(t, func(name string, _ []byte) error {
		dir := path.Dir(name)
		if path.Base(name) == "go.mod" && !slices.Contains(inside, dir) && !strings.HasPrefix(name, "tools/") {
			outside = append(outside, dir)
		}
		return nil
	})
	if diff := cmp.Diff(outside, listed("OUTSIDE")); diff != "" {
		t.Errorf("OUTSIDE in the Makefile (-repository +Makefile):\n%s", diff)
	}
}

func TestOwnModules(t *testing.T) {
	mod := func(dir, text string) goModule {
		m := goModule{dir: dir}
		if err := json.Unmarshal([]byte(strings.ReplaceAll(text, "~", module)), &m); err != nil {
			t.Fatal(err)
		}
		return m
	}
	got := ownModules(moduleRules(), []goModule{
		mod("proto", `{"Module": {"Path": "~/proto"}, "Go": "1.26.8", "Require": [{"Path": "~", "Version": "v0.0.0"},
			{"Path": "example.com/a", "Version": "v1.0.0"}], "Replace": [{"Old": {"Path": "~"}, "New": {"Path": "../"}}]}`),
		mod("client", `{"Module": {"Path": "~/sdk"}, "Go": "1.26.8", "Require": [{"Path": "~/proto", "Version": "v0.0.0"},
			{"Path": "example.com/a", "Version": "v1.1.0"}],
			"Replace": [{"Old": {"Path": "~/proto"}, "New": {"Path": "/home/me/proto"}}]}`),
		mod("util", `{"Module": {"Path": "~/util"}, "Go": "1.26.8"}`),
	})
	want := []string{
		"proto: must not require .",
		"client: is named " + module + "/sdk, want " + module + "/client",
		"client: must not replace " + module + "/proto by /home/me/proto: want its directory in this repository",
		"util: has no place in the layout of CONTRIBUTING.md",
		"example.com/a: the modules want different versions: map[v1.0.0:[proto] v1.1.0:[client]]",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
}
