package style

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const module = "github.com/holdfast-metal/holdfast"

// importRule defines what a part of the module may import. Paths of the module have no prefix;
// "x/..." is x and everything below it. A part may always import itself.
type importRule struct {
	part  string
	may   []string // packages of the module
	tests []string // packages of the module that only its tests may import
	never []string // other packages, forbidden outside its tests
	link  []string // packages forbidden as indirect dependencies, too
}

// importRules is the import graph of CONTRIBUTING.md: proto ← fsm ← cluster ← {executor, server} ←
// cmd, providers ← executor, proto ← client ← agent/holdfast-agent. A package that no line names
// violates the layout.
func importRules() []importRule {
	// Causes of differences between peers that applied the same log: I/O, randomness and generated
	// ids, and packages that parse differently in another release of Go, as net/url and unicode.
	// net/netip only parses.
	impure := []string{
		"net/url", "unicode", "net", "net/http/...", "net/rpc/...", "net/smtp", "os/...", "syscall", "math/rand/...",
		"crypto/rand",
		"github.com/google/uuid", "google.golang.org/grpc/...", "github.com/hashicorp/...",
	}
	// Dependencies that the SDK must not bring into other programs, nor the agent onto machines.
	heavy := []string{
		"github.com/hashicorp/raft/...", "github.com/hashicorp/raft-boltdb/...", "github.com/hashicorp/raft-wal/...",
		"github.com/hashicorp/memberlist",
		"go.etcd.io/bbolt", module + "/fsm/...", module + "/cluster/...", module + "/providers/...",
	}
	// Packages that belong in tests only.
	tests := []string{module + "/providers/providertest", module + "/internal/cli/clitest", "testing/..."}
	// Parts of a peer that no other one may use, except as stated.
	var parts []string
	for _, p := range []string{"propose", "terms", "members", "read", "route"} {
		parts = append(parts, module+"/cluster/internal/"+p)
	}
	rules := []importRule{
		{part: "."}, // its doc
		{part: "proto/holdfast/..."},
		{part: "proto/internalv1", may: []string{"proto/holdfast/..."}},
		{part: "internal/nearest"},
		{part: "internal/misfit", may: []string{"internal/nearest"}, tests: []string{"proto/..."}},
		{part: "internal/guard"},    // for tests only
		{part: "internal/oidctest"}, // for tests only
		{part: "internal/facts/known", never: impure},
		{part: "fsm/...", may: []string{"proto/...", "internal/nearest", "internal/facts/known", "internal/hostaddr"},
			tests: []string{"internal/guard"}, never: impure},
		{part: "internal/heap"},
		{part: "internal/hostaddr", never: impure},
		{part: "internal/imageformat"},
		{part: "internal/portowner"},
		{part: "internal/wait"},
		{part: "internal/describe", may: []string{"proto/holdfast/..."}},
		{part: "internal/tracing"},
		{part: "internal/archive/...", may: []string{"proto/..."}},
		{part: "cluster/call", may: []string{"proto/internalv1"}},
		{part: "cluster/clock", may: []string{"fsm"}},
		{part: "cluster/leader"},
		{part: "cluster/outcome"},
		// The arrows between the parts of a peer: propose ← terms ← read ← route, and members
		// beside terms, as a task of the leader.
		{part: "cluster/internal/propose", may: []string{"proto/internalv1", "fsm", "cluster/call", "cluster/outcome",
			"cluster/internal/wait"}, tests: []string{"internal/guard"}},
		{part: "cluster/internal/terms", may: []string{"proto/internalv1", "fsm", "cluster/leader", "cluster/outcome",
			"cluster/internal/propose", "cluster/internal/readindex", "cluster/internal/wait"}},
		{part: "cluster/internal/members", may: []string{"proto/...", "fsm", "cluster/leader", "cluster/outcome",
			"cluster/peertls", "cluster/internal/gossip", "cluster/internal/propose", "cluster/internal/wait"}},
		{part: "cluster/internal/read", may: []string{"cluster/call", "cluster/outcome", "cluster/internal/terms",
			"cluster/internal/readindex", "cluster/internal/wait"}},
		{part: "cluster/internal/route", may: []string{"proto/holdfast/...", "cluster/call", "cluster/outcome",
			"cluster/internal/read", "cluster/internal/peerauth", "cluster/internal/peerconn", "cluster/internal/wait"},
			tests: []string{"cluster/internal/terms"}},
		{part: "cluster/internal/...", may: []string{"proto/internalv1", "fsm", "cluster/call", "cluster/clock",
			"cluster/leader", "cluster/outcome", "cluster/keyfile", "cluster/peertls"},
			tests: []string{"cluster/freeport", "cluster/peertls/...", "internal/guard"}, never: parts},
		{part: "cluster/...", may: []string{"proto/...", "fsm"}, tests: []string{"internal/guard"}},
		{part: "internal/peercert", may: []string{"cluster/keyfile", "cluster/peertls/..."}},
		{part: "internal/secrets", may: []string{"proto/...", "fsm", "cluster/leader", "cluster/keyfile"}},
		{part: "providers/...", may: []string{"proto/holdfast/...", "internal/facts/known", "internal/hostaddr",
			"internal/misfit"}, tests: []string{"cluster/freeport"}},
		{part: "internal/filter", may: []string{"proto/holdfast/...", "internal/nearest"}, tests: []string{"client"}},
		{part: "executor/executortest", may: []string{"proto/...", "fsm", "cluster/leader", "cluster/outcome", "providers",
			"providers/fake"}},
		{part: "executor/...", may: []string{
			"proto/...", "internal/archive", "internal/describe", "internal/filter", "internal/secrets", "internal/wait",
			"fsm", "cluster/leader", "cluster/outcome", "providers",
		}, tests: []string{"internal/archive/...", "internal/guard", "providers/..."},
			never: []string{module + "/executor/executortest"}},
		{part: "internal/images/...", may: []string{
			"proto/...", "internal/wait", "fsm", "cluster/outcome", "providers", "server/auth",
		}},
		{part: "server/internal/edge", may: []string{"proto/...", "fsm", "cluster/call", "cluster/outcome"},
			tests: []string{"server/egress"}},
		{part: "server/internal/request", may: []string{"fsm", "internal/filter"}, tests: []string{"proto/..."}},
		{part: "server/internal/page", may: []string{"server/internal/request"}, tests: []string{"proto/..."}},
		{part: "server/internal/watch", may: []string{"internal/filter"}, tests: []string{"proto/..."}},
		{part: "server/internal/scope", may: []string{"proto/...", "fsm", "server/auth"},
			tests: []string{"server/internal/nodetest"}},
		{part: "server/ui/history/series"},
		{part: "server/ui/history", may: []string{"proto/...", "fsm", "cluster", "server/ui/history/series"},
			tests: []string{"fsm/fsmtest"}},
		{part: "server/...", may: []string{
			"proto/...", "internal/misfit", "internal/nearest", "internal/archive", "internal/describe", "internal/filter",
			"internal/hostaddr", "internal/imageformat", "internal/images/...", "internal/secrets", "internal/wait",
			"fsm", "cluster", "cluster/peertls", "cluster/keyfile", "providers",
		}, tests: []string{"internal/guard", "internal/oidctest", "providers/...", "cluster/peertls/issue"},
			never: []string{module + "/server/internal/nodetest"}},
		{part: "client/...", may: []string{"proto/holdfast/..."}, link: heavy},
		{part: "internal/diskrule", may: []string{"proto/holdfast/..."}},
		{part: "agent/facts/...", may: []string{"internal/facts/known"}, link: heavy},
		{part: "agent/installer/...", may: []string{
			"proto/holdfast/...", "client/...", "agent/facts/...", "internal/diskrule", "internal/imageformat",
		}, tests: []string{"cluster/freeport"}, link: heavy},
		{part: "agent/holdfast-agent", may: []string{
			"proto/holdfast/...", "client/...", "agent/facts/...", "agent/installer/...", "internal/diskrule",
			"internal/facts/known", "internal/misfit",
		}, tests: []string{"cluster/freeport"}, link: heavy},
		{part: "internal/hardware", may: []string{
			"proto/...", "fsm", "cluster/leader", "executor", "server/...", "providers/...", "internal/images/...",
			"internal/secrets",
		}, tests: []string{"fsm/fsmtest"}},
		{part: "internal/cli/flagerror", may: []string{"internal/nearest"}},
		{part: "internal/cli/clitest", may: []string{"proto/...", "client", "fsm", "fsm/fsmtest", "internal/cli",
			"internal/cli/app"}},
		{part: "internal/cli/app", may: []string{"client", "internal/cli/flagerror", "internal/cli/login",
			"internal/cli/manifest", "internal/cli/profile", "internal/cli/render", "internal/misfit", "internal/nearest",
		}, never: tests},
		{part: "internal/cli/prompt", may: []string{"internal/cli/app"}, never: tests},
		{part: "internal/cli/output", may: []string{"proto/holdfast/...", "client", "internal/cli/app",
			"internal/cli/expression", "internal/cli/fields", "internal/cli/manifest", "internal/cli/progress",
			"internal/cli/prompt", "internal/cli/render", "internal/cli/selector", "internal/describe", "internal/misfit",
			"internal/secrets"}, never: tests},
		{part: "internal/cli/kinds", may: []string{"proto/holdfast/...", "client", "fsm", "internal/cli/app",
			"internal/cli/expression", "internal/cli/output", "internal/cli/progress", "internal/cli/render",
			"internal/describe", "internal/filter", "internal/nearest"}, never: tests},
		{part: "internal/cli/start", may: []string{"proto/holdfast/...", "client", "fsm", "internal/cli/app",
			"internal/cli/fields", "internal/cli/kinds", "internal/cli/output", "internal/cli/prompt", "internal/describe",
			"internal/filter"}, never: tests},
		{part: "internal/cli/...", may: []string{
			"proto/...", "client/...", "fsm", "cluster", "cluster/peertls/...", "cluster/keyfile", "internal/describe",
			"internal/filter", "internal/imageformat", "internal/misfit", "internal/nearest", "internal/secrets",
			"internal/wait",
		}, tests: []string{"fsm/fsmtest", "internal/oidctest"}, never: tests},
		{part: "internal/localcluster", may: []string{
			"proto/...", "client/...", "internal/cli/pki", "cluster/...", "server/...",
		}, never: tests},
		{part: "internal/demo", may: []string{"proto/...", "client/...", "internal/cli/...", "internal/describe",
			"internal/localcluster", "providers/fake"}, tests: []string{"fsm", "providers"}, never: tests},
		{part: "bench/holdfast-bench", may: []string{"client", "internal/cli/...", "bench/..."}},
		{part: "bench/...", may: []string{
			"proto/...", "client/...", "fsm", "cluster/freeport", "internal/cli/...", "internal/localcluster",
			"bench/...", "internal/wait",
			"providers/...", "server/...",
		}, tests: []string{"cmd/holdfast/serve", "internal/demo"}, never: tests},
		{part: "cmd/holdfast/...", may: []string{
			"proto/...", "fsm", "cluster", "cluster/peertls/...", "cluster/keyfile", "executor/...", "server/...",
			"providers/...", "client/...",
			"internal/...",
		}, tests: []string{"fsm/fsmtest", "cluster/freeport"}, never: slices.Concat(tests,
			[]string{module + "/bench/..."}), link: []string{module + "/bench/..."}},
		{part: "test/work/countwork", may: []string{"fsm/fsmtest"}},
		{part: "test/...", may: []string{
			"proto/...", "fsm", "cluster", "cluster/peertls/...", "cluster/keyfile", "cluster/freeport", "executor/...",
			"server/...",
			"providers/...", "client/...", "internal/...", "cmd/holdfast/serve",
		}, tests: []string{"cluster/clustertest"}},
	}
	for i, r := range rules {
		if slices.Contains(r.may, "cluster") {
			rules[i].may = slices.Concat(r.may, clusterLeaves())
		}
	}
	return rules
}

// clusterLeaves are the packages of cluster for those that need no peer. Each part that may import
// cluster may import them.
func clusterLeaves() []string {
	return []string{"cluster/call", "cluster/clock", "cluster/leader", "cluster/outcome"}
}

// unwanted maps the modules that no package imports to their replacements.
func unwanted() map[string]string {
	return map[string]string{
		"github.com/stretchr/testify/...": "go-cmp, and got and want",
		"gopkg.in/yaml.v3":                "sigs.k8s.io/yaml",
		"math/rand":                       "math/rand/v2",
		"github.com/sirupsen/logrus":      "log/slog",
		"go.uber.org/zap/...":             "log/slog",
	}
}

// goPackage is a package in the output of `go list -json`.
type goPackage struct {
	ImportPath   string
	Imports      []string
	TestImports  []string
	XTestImports []string
	Deps         []string
}

// matches reports whether a pattern matches an import path: "x" is x, "x/..." is x and everything
// below it.
func matches(pattern, pkg string) bool {
	below, ok := strings.CutSuffix(pattern, "/...")
	return pkg == below || ok && strings.HasPrefix(pkg, below+"/")
}

// matchesAny reports whether one of the patterns matches an import path.
func matchesAny(patterns []string, pkg string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return matches(p, pkg) })
}

// ours returns the path of a package below the module, "." for the root.
func ours(pkg string) (string, bool) {
	if pkg == module {
		return ".", true
	}
	return strings.CutPrefix(pkg, module+"/")
}

// checkImports lists the violations of the rules in pkgs.
func checkImports(rules []importRule, pkgs []goPackage) []string {
	var found []string
	report := func(format string, args ...any) {
		if s := fmt.Sprintf(format, args...); !slices.Contains(found, s) {
			found = append(found, s)
		}
	}
	for _, p := range pkgs {
		self, _ := ours(p.ImportPath)
		i := slices.IndexFunc(rules, func(r importRule) bool { return matches(r.part, self) })
		if i < 0 {
			report("%s: has no place in the layout of CONTRIBUTING.md", self)
			continue
		}
		r := rules[i]
		may := slices.Concat([]string{r.part}, r.may)
		for _, imp := range p.Imports {
			if pkg, ok := ours(imp); ok && !matchesAny(may, pkg) {
				report("%s: must not import %s", self, pkg)
			}
			if matchesAny(r.never, imp) {
				report("%s: must not import %s", self, imp)
			}
		}
		inTests := slices.Concat(may, r.tests)
		for _, imp := range slices.Concat(p.TestImports, p.XTestImports) {
			if pkg, ok := ours(imp); ok && !matchesAny(inTests, pkg) {
				report("%s: its tests must not import %s", self, pkg)
			}
		}
		for _, dep := range p.Deps {
			if matchesAny(r.link, dep) {
				report("%s: must not link %s", self, dep)
			}
		}
		for pattern, instead := range unwanted() {
			for _, imp := range slices.Concat(p.Imports, p.TestImports, p.XTestImports) {
				if matches(pattern, imp) {
					report("%s: must not import %s: take %s", self, imp, instead)
				}
			}
		}
	}
	return found
}

// checkClock lists the uses of a clock in the state machine. It may use the types of time.
func checkClock(files []source) []string {
	var found []string
	for _, s := range files {
		if !strings.HasPrefix(s.path, "fsm/") || s.isTest() {
			continue
		}
		for _, use := range s.uses("time", "Now", "Since", "Until", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker",
			"Sleep") {
			found = append(found, fmt.Sprintf("%s: time.%s: the FSM has no clock, time comes in the command", s.at(use.Pos()),
				use.Sel.Name))
		}
	}
	return found
}

// listPackages returns every package of the modules of go.work. With -e, go list includes packages
// that do not build; the compiler reports their errors.
func listPackages(t *testing.T) []goPackage {
	t.Helper()
	args := []string{"list", "-e", "-json=ImportPath,Imports,TestImports,XTestImports,Deps"}
	for _, dir := range workspace(t) {
		args = append(args, "./"+path.Join(dir, "..."))
	}
	cmd := exec.CommandContext(t.Context(), "go", args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, stderr.Bytes())
	}
	var pkgs []goPackage
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p goPackage
		err := dec.Decode(&p)
		if errors.Is(err, io.EOF) {
			return pkgs
		}
		if err != nil {
			t.Fatalf("decode the output of go list: %v", err)
		}
		pkgs = append(pkgs, p)
	}
}

func TestImportsRunOneWay(t *testing.T) {
	for _, f := range checkImports(importRules(), listPackages(t)) {
		t.Error(f)
	}
}

// checkResources lists the commands of a resource that import those of another: what two of them
// use belongs to a package below both.
func checkResources(pkgs []goPackage) []string {
	below := []string{"app", "clitest", "difference", "explain", "expression", "fields", "flagerror", "flagfile", "kinds",
		"login", "manifest", "output", "pki", "profile", "progress", "prompt", "render", "selector", "start", "top"}
	resource := func(pkg string) bool {
		name, ok := strings.CutPrefix(pkg, module+"/internal/cli/")
		return ok && !slices.Contains(below, name)
	}
	var found []string
	for _, p := range pkgs {
		for _, imp := range p.Imports {
			if resource(p.ImportPath) && resource(imp) {
				found = append(found, fmt.Sprintf("%s: must not import %s: move what both use to internal/cli/kinds or start",
					strings.TrimPrefix(p.ImportPath, module+"/"), strings.TrimPrefix(imp, module+"/")))
			}
		}
	}
	return found
}

func TestResourcesDoNotImportEachOther(t *testing.T) {
	for _, f := range checkResources(listPackages(t)) {
		t.Error(f)
	}
	cli := module + "/internal/cli/"
	got := checkResources([]goPackage{{ImportPath: cli + "plan", Imports: []string{cli + "kinds", cli + "machine", "fmt"}},
		{ImportPath: module + "/internal/cli", Imports: []string{cli + "plan"}}})
	want := []string{
		"internal/cli/plan: must not import internal/cli/machine: move what both use to internal/cli/kinds or start"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
}

func TestFSMHasNoClock(t *testing.T) {
	for _, f := range checkClock(sources(t)) {
		t.Error(f)
	}
}

func TestCheckImports(t *testing.T) {
	pkg := func(path string, imports ...string) goPackage {
		for i, imp := range imports {
			imports[i] = strings.Replace(imp, "~", module, 1)
		}
		return goPackage{ImportPath: module + "/" + path, Imports: imports}
	}
	tests := []struct {
		name string
		pkg  goPackage
		want []string
	}{
		{"allowed imports", pkg("cluster", "~/fsm", "~/proto/internalv1", "~/cluster/gossip", "net"), nil},
		{"import of a higher layer", pkg("fsm", "~/cluster"), []string{"fsm: must not import cluster"}},
		{"a part that knows the peer", pkg("cluster/internal/wait", "~/cluster"),
			[]string{"cluster/internal/wait: must not import cluster"}},
		{"terms that know the members", pkg("cluster/internal/terms", "~/cluster/internal/members"),
			[]string{"cluster/internal/terms: must not import cluster/internal/members"}},
		{"a leaf that knows a part", pkg("cluster/internal/wait", "~/cluster/internal/read"),
			[]string{"cluster/internal/wait: must not import " + module + "/cluster/internal/read"}},
		{"import of a peer package", pkg("server", "~/executor"), []string{"server: must not import executor"}},
		{"the reverse import", pkg("executor", "~/server"), []string{"executor: must not import server"}},
		{"a kind of provider", pkg("executor", "~/providers/fake"), []string{"executor: must not import providers/fake"}},
		{"a provider with internal types", pkg("providers/fake", "~/providers", "~/proto/internalv1"),
			[]string{"providers/fake: must not import proto/internalv1"}},
		{"the SDK", pkg("client", "~/proto/internalv1"), []string{"client: must not import proto/internalv1"}},
		{"the public API", pkg("proto/holdfast/v1", "~/proto/internalv1"),
			[]string{"proto/holdfast/v1: must not import proto/internalv1"}},
		{"the conformance suite", pkg("cmd/holdfast", "~/providers/providertest"),
			[]string{"cmd/holdfast: must not import " + module + "/providers/providertest"}},
		{"a test harness", pkg("internal/demo", "~/test/harness"), []string{"internal/demo: must not import test/harness"}},
		{"the binary", pkg("cmd/holdfast", "~/internal/demo", "~/executor", "~/server", "~/client"), nil},
		{"unknown package", pkg("util/strings"),
			[]string{"util/strings: has no place in the layout of CONTRIBUTING.md"}},
		{"name with a common prefix", pkg("fsmx"), []string{"fsmx: has no place in the layout of CONTRIBUTING.md"}},
		{"the network in the FSM", pkg("fsm", "net", "net/netip", "net/http", "time"),
			[]string{"fsm: must not import net", "fsm: must not import net/http"}},
		{"files in the FSM", pkg("fsm", "os", "os/exec"), []string{"fsm: must not import os",
			"fsm: must not import os/exec"}},
		{"randomness in the FSM", pkg("fsm", "math/rand/v2"), []string{"fsm: must not import math/rand/v2"}},
		{"an assertion library", pkg("server", "github.com/stretchr/testify/require"),
			[]string{"server: must not import github.com/stretchr/testify/require: take go-cmp, and got and want"}},
		{"tests", goPackage{ImportPath: module + "/client", XTestImports: []string{module + "/server"}},
			[]string{"client: its tests must not import server"}},
		{"tests with a real provider",
			goPackage{ImportPath: module + "/executor", TestImports: []string{module + "/providers/fake", "os"}}, nil},
		{"tests of the FSM read files", goPackage{ImportPath: module + "/fsm", TestImports: []string{"os", "math/rand/v2"}},
			nil},
		{"raft in the agent", goPackage{ImportPath: module + "/agent/holdfast-agent",
			Deps: []string{"fmt", "github.com/hashicorp/raft"}},
			[]string{"agent/holdfast-agent: must not link github.com/hashicorp/raft"}},
		{"the FSM in the SDK", goPackage{ImportPath: module + "/client", Deps: []string{module + "/fsm"}},
			[]string{"client: must not link " + module + "/fsm"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := checkImports(importRules(), []goPackage{tt.pkg})
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCheckClock(t *testing.T) {
	files := madeUp(t,
		"fsm/a.go", "package fsm\nimport clock \"time\"\nvar d = clock.Second\nvar now = clock.Now\nfunc f() { "+
			"<-clock.After(d) }\n",
		"fsm/b.go", "package fsm\nvar time struct{ Now int }\nvar x = time.Now\n",
		"fsm/a_test.go", "package fsm\nimport \"time\"\nvar start = time.Now()\n",
		"cluster/a.go", "package cluster\nimport \"time\"\nvar f = time.Now\n",
	)
	want := []string{
		"fsm/a.go:4: time.Now: the FSM has no clock, time comes in the command",
		"fsm/a.go:5: time.After: the FSM has no clock, time comes in the command",
	}
	if diff := cmp.Diff(want, checkClock(files)); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
}
