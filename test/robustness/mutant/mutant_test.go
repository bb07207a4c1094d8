package mutant

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-metal/holdfast/test/overlay"
	"github.com/holdfast-metal/holdfast/test/program"
)

// TestPatchesFit checks that every patch matches the product. `make mutants` runs the mutants.
func TestPatchesFit(t *testing.T) {
	root, err := overlay.Root(".")
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, m := range Mutants() {
		if names[m.Name] {
			t.Errorf("two mutants have the name %s", m.Name)
		}
		names[m.Name] = true
		if _, err := source(root, slices.Concat(m.Patches, m.Scenario.Provoke)...); err != nil {
			t.Errorf("mutant %s: %v", m.Name, err)
		}
	}
}

// patience bounds a scenario and the build before it.
const patience = 3 * time.Minute

// TestMutants checks that each mutant is caught by its scenario, and that the product passes it.
// MUTANTS has the names of some of them, separated by commas, or "all".
func TestMutants(t *testing.T) {
	asked := os.Getenv("MUTANTS")
	if asked == "" {
		t.Skip("takes minutes: run `make mutants`")
	}
	root, err := overlay.Root(".")
	if err != nil {
		t.Fatal(err)
	}
	held := map[string]time.Duration{} // scenarios that the product has held
	product, err := build(t, root)
	if err != nil {
		t.Fatal(err)
	}
	table := []string{"| mutant | breaks the rule that | caught by | seconds | seconds the product held |",
		"|---|---|---|---|---|"}
	for _, m := range Mutants() {
		if asked != "all" && !strings.Contains(","+asked+",", ","+m.Name+",") {
			continue
		}
		t.Run(m.Name, func(t *testing.T) {
			name := m.Scenario.Name
			if _, ok := held[name]; !ok {
				whole := product
				if len(m.Scenario.Provoke) > 0 {
					if whole, err = build(t, root, m.Scenario.Provoke...); err != nil {
						t.Fatal(err)
					}
				}
				found, took := run(t, m.Scenario, whole)
				for _, err := range found {
					t.Errorf("scenario with the product: %v", err)
				}
				held[name] = took
			}
			broken, err := build(t, root, slices.Concat(m.Patches, m.Scenario.Provoke)...)
			if err != nil {
				t.Fatal(err)
			}
			found, took := run(t, m.Scenario, broken)
			if len(found) == 0 {
				t.Fatalf("not caught by the scenario %q in %s", name, took.Round(time.Second))
			}
			t.Logf("caught after %s: %v", took.Round(time.Second), found[0])
			check, _, _ := strings.Cut(found[0].Error(), ":")
			if strings.HasPrefix(check, "go test") {
				check = "unit test"
			}
			table = append(table, fmt.Sprintf("| %s | %s | %s: %s | %.0f | %.0f |", m.Name, m.Breaks, check, name,
				took.Seconds(), held[name].Seconds()))
		})
	}
	fmt.Println(strings.Join(table, "\n"))
}

// build builds the product with some patches.
func build(t *testing.T, root string, patches ...Patch) (Env, error) {
	t.Helper()
	o, err := source(root, patches...)
	if err != nil {
		return Env{}, err
	}
	dir := t.TempDir()
	binary, err := program.Build{Overlay: o}.Into(t.Context(), dir)
	return Env{Source: o, Binary: binary, Dir: dir}, err
}

// run runs a scenario in its own directory, and returns its findings.
func run(t *testing.T, s Scenario, e Env) ([]error, time.Duration) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	e.Dir = filepath.Join(t.TempDir(), "cluster")
	began := time.Now()
	found, err := s.Run(ctx, e)
	if err != nil {
		t.Fatalf("scenario %q: %v", s.Name, err)
	}
	return found, time.Since(began)
}
