package style

import (
	"fmt"
	"go/ast"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-metal/holdfast/proto/holdfast/machinefield"
)

// maxMachineFields is the maximum number of fields of a machine's spec that a function names.
const maxMachineFields = 3

// exceptMachineFields lists functions that name more of them, with the reason.
func exceptMachineFields() map[string]string {
	return map[string]string{
		"NormalizeMachine": "checks the form of values",
		"Machines":         "lists the fields that keys of indexes have",
		"updateMachine":    "of the generator: masks with one field and with several",
	}
}

// checkMachineFields lists the functions that name more than maxMachineFields fields of a machine's
// spec: by their getters, or as texts. The option machine_field declares where a field appears.
func checkMachineFields(files []source, fields []string, except map[string]string) []string {
	getters := map[string]string{}
	for _, f := range fields {
		getters[getter(f)] = f
	}
	var found []string
	for _, s := range files {
		if s.generated() || s.isTest() {
			continue
		}
		for _, d := range s.file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || except[f.Name.Name] != "" {
				continue
			}
			if n := machineFieldsIn(f, fields, getters); n > maxMachineFields {
				found = append(found, fmt.Sprintf("%s: %s names %d fields of a machine's spec, more than %d: "+
					"read the declared ones with proto/holdfast/machinefield", s.at(f.Pos()), f.Name.Name, n, maxMachineFields))
			}
		}
	}
	return found
}

// getter returns the name of the Go getter of a field: GetRack of rack.
func getter(field string) string {
	name := "Get"
	for word := range strings.SplitSeq(field, "_") {
		name += strings.ToUpper(word[:1]) + word[1:]
	}
	return name
}

// machineFieldsIn returns the number of fields that a function names.
func machineFieldsIn(f *ast.FuncDecl, fields []string, getters map[string]string) int {
	seen := map[string]bool{}
	for n := range ast.Preorder(f) {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			if name := getters[n.Sel.Name]; name != "" {
				seen[name] = true
			}
		case *ast.BasicLit:
			if name := strings.TrimPrefix(strings.Trim(n.Value, "\"`"), "spec."); slices.Contains(fields, name) {
				seen[name] = true
			}
		}
	}
	return len(seen)
}

// machineFields returns the fields of a machine's spec that no other message has.
func machineFields() (names []string) {
	for f := range machinefield.All() {
		if !slices.Contains([]string{"provider", "pool"}, f.Name()) {
			names = append(names, f.Name())
		}
	}
	return names
}

func TestMachineFieldsAreDeclared(t *testing.T) {
	for _, f := range checkMachineFields(sources(t), machineFields(), exceptMachineFields()) {
		t.Error(f)
	}
}

func TestCheckMachineFields(t *testing.T) {
	files := madeUp(t,
		"a/a.go", "package a\nfunc three(s S) {\ns.GetRack()\ns.GetCustomerId()\ns.GetRack()\ns.GetSerial()\n}\n"+
			"func four(s S) {\nf(s.GetRack(), \"spec.location\", \"serial\", s.GetCustomerId())\n}\n",
		"a/a_test.go", "package a\nfunc four(s S) {\nf(s.GetRack(), \"spec.location\", \"serial\", s.GetCustomerId())\n}\n",
	)
	want := []string{"a/a.go:8: four names 4 fields of a machine's spec, more than 3: " +
		"read the declared ones with proto/holdfast/machinefield"}
	if diff := cmp.Diff(want, checkMachineFields(files, machineFields(), nil)); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
}
