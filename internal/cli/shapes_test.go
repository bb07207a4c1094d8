package cli_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/holdfast-metal/holdfast/internal/cli"
	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/cli/clitest"
)

// shapeArgs are the arguments of the commands whose JSON is compared.
var shapeArgs = []string{
	"apply -f documents.yaml --dry-run", "audit list", "console list",
	"cluster status", "cluster-ref get x", "cluster-ref list", "context list", "events watch",
	"image get x", "image list", "install get x", "install list",
	"machine create --pool x", "machine get x", "machine history x", "machine issues", "machine list", "machine why x",
	"node get x", "node history x", "node list", "node stalled",
	"operator autopilot state", "operator raft list-peers",
	"plan get x", "plan list", "plan validate --plan x --dry-run x", "pool get x", "pool list", "pool providers",
	"run get x", "run list", "run logs x", "run watch x",
	"secret get x", "secret list", "session list", "service get x", "service list", "token create --name x --role viewer",
	"token list",
	"version --server", "wave get x", "wave list", "webhook get x", "webhook list", "whoami",
}

// sameShape are the verbs of commands that print the same resource as get, or a document of their
// own that their tests compare (audit verify).
var sameShape = []string{"add", "apply", "approve", "bmc-reset", "boot-device", "cancel", "create", "cycle", "drain",
	"edit", "eject", "identify", "insert", "inspect", "inventory", "off", "on", "put", "register", "release",
	"retry", "sel",
	"set-phase", "start", "state", "status", "tag", "uncordon", "update", "verify", "wait", "watch"}

// shape has the types of fields in JSON by their paths, such as spec.rack or steps[].name.
type shape map[string]string

// TestShapesOfJSON compares the fields of -o json, and the names of enums in it, with
// testdata/shapes.golden: none may be removed or get another type (docs/cli.md). UPDATE_GOLDEN=1
// adds new ones.
func TestShapesOfJSON(t *testing.T) {
	s := startShapeServer(t)
	want := readShapes(t)
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	for name, text := range map[string]string{
		"contexts.yaml":  "current: x\ncontexts: {x: {addrs: [a], ca: ca.pem}}\n",
		"documents.yaml": "machine_id: x\nspec: {rack: y}\n",
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got := map[string]shape{}
	for _, line := range shapeArgs {
		s.choices.Store(1)
		for choice := int64(0); choice < s.choices.Load(); choice++ {
			s.choice.Store(choice)
			addShape(t, got, s, line)
		}
	}
	maps.Copy(got, s.enums)
	t.Chdir(here)
	checkShapes(t, want, got)
}

// addShape runs a command and adds the shape of what it prints.
func addShape(t *testing.T, to map[string]shape, s *shapeServer, line string) {
	t.Helper()
	name, _, _ := strings.Cut(line, " x")
	name, _, _ = strings.Cut(name, " -")
	c := clitest.Command{Env: map[string]string{"HOLDFAST_ADDR": s.addr, "HOLDFAST_CONTEXTS": "contexts.yaml"}}
	code := c.Run(t, nil, append(strings.Fields(line), "-o", "json")...)
	dec := json.NewDecoder(strings.NewReader(c.Out.String()))
	n := 0
	for ; dec.More(); n++ {
		var v any
		if err := dec.Decode(&v); err != nil {
			t.Fatalf("%s: read JSON: %v\n%s", line, err, c.Out.String())
		}
		label := name
		if key, list := onlyList(v); key != "" {
			label, v = name+" ."+key+"[]", list
		}
		if to[label] == nil {
			to[label] = shape{}
		}
		to[label].add("", v)
	}
	if n == 0 {
		t.Errorf("%s: got no JSON, exit code %d: %s", line, code, c.Err.String())
	}
}

// onlyList returns the only key of an object and the first element of its list, or "".
func onlyList(v any) (string, any) {
	if object, ok := v.(map[string]any); ok && len(object) == 1 {
		for key, value := range object {
			if list, ok := value.([]any); ok && len(list) == 1 {
				return key, list[0]
			}
		}
	}
	return "", nil
}

// add adds the fields of a value with this path.
func (s shape) add(path string, v any) {
	switch v := v.(type) {
	case map[string]any:
		s.set(path, "object")
		for key, value := range v {
			s.add(strings.TrimPrefix(path+"."+key, "."), value)
		}
	case []any:
		s.set(path, "array")
		for _, value := range v {
			s.add(path+"[]", value)
		}
	default:
		s.set(path, map[string]string{"string": "string", "float64": "number", "bool": "bool"}[fmt.Sprintf("%T", v)])
	}
}

func (s shape) set(path, kind string) {
	if path != "" {
		s[path] = kind
	}
}

// TestShapesAreComplete checks that each command with -o json is compared, or like one that is.
func TestShapesAreComplete(t *testing.T) {
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		_, name, _ := strings.Cut(cmd.CommandPath(), " ")
		if cmd.Flags().Lookup("output") != nil && !slices.Contains(sameShape, cmd.Name()) &&
			!slices.ContainsFunc(shapeArgs, func(args string) bool { return strings.HasPrefix(args+" ", name+" ") }) {
			t.Errorf("%s -o json: want its arguments in shapeArgs", name)
		}
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk(cli.Root(app.Streams{In: strings.NewReader(""), Getenv: func(string) string { return "" }, Now: clitest.Now}))
}

// checkShapes compares shapes with the golden file.
func checkShapes(t *testing.T, want, got map[string]shape) {
	t.Helper()
	var added []string
	for _, label := range slices.Sorted(maps.Keys(want)) {
		for path, kind := range want[label] {
			switch now := got[label][path]; {
			case now == "":
				t.Errorf("%s: %s was removed: scripts rely on it (docs/cli.md)", label, path)
			case now != kind:
				t.Errorf("%s: %s is now of type %s, was %s: scripts rely on it (docs/cli.md)", label, path, now, kind)
			}
		}
	}
	for _, label := range slices.Sorted(maps.Keys(got)) {
		for path, kind := range got[label] {
			if want[label][path] != "" {
				continue
			}
			added = append(added, label+" "+path)
			if want[label] == nil {
				want[label] = shape{}
			}
			want[label][path] = kind
		}
	}
	if len(added) > 0 && os.Getenv("UPDATE_GOLDEN") == "" {
		slices.Sort(added)
		t.Errorf("got %d new fields, such as %s: UPDATE_GOLDEN=1 adds them to shapes.golden", len(added), added[0])
	}
	if os.Getenv("UPDATE_GOLDEN") != "" {
		writeShapes(t, want)
	}
}
