package bmc_test

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/bmc"
	"github.com/holdfast-metal/holdfast/providers/bmc/redfishtest"
)

// TestCaptures reads captured trees of real BMCs with the driver. CAPTURES names their directory:
// a tree is a file NAME.json.gz, an object from path to answer. It prints what was read, and fails
// on an error text of Go, a path that no answer named, and a power state or an inventory that
// cannot be read, and on a false alarm: more problems than the tree has faulty parts. EXPECT names
// a file with the problems that the machines really have, one "NAME: TEXT" a line; then any other
// is one, too.
func TestCaptures(t *testing.T) {
	dir := os.Getenv("CAPTURES")
	if dir == "" {
		t.Skip("CAPTURES is not set: make captures CAPTURES=DIR")
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.json.gz"))
	if more, _ := filepath.Glob(filepath.Join(dir, "redfish", "*.json.gz")); len(files) == 0 {
		files = more
	}
	if err != nil || len(files) == 0 {
		t.Fatalf("no NAME.json.gz in %s: %v", dir, err)
	}
	var table, notes strings.Builder
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "tree\tmachine\tserial\tpower\tCPUs\tGPUs\tGiB\tdisks\tNICs\tPCIe\t"+
		"BMC\tlog\tproblems\trequests\tms")
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".json.gz")
		readCapture(t, name, file, w, &notes)
	}
	_ = w.Flush()
	fmt.Print(table.String(), "\n", notes.String())
}

// readCapture reads each machine of one tree.
func readCapture(t *testing.T, name, file string, w *tabwriter.Writer, notes *strings.Builder) {
	t.Helper()
	tree := redfishtest.NewTree(nil)
	var systems struct {
		Members []struct {
			ID string `json:"@odata.id"`
		}
	}
	faulty := 0
	for at, body := range capture(t, file) {
		var of any
		_ = json.Unmarshal(body, &of)
		faulty += faults(of)
		tree.Set(at, redfishtest.Answer{Body: string(body)})
		if strings.TrimRight(at, "/") == "/redfish/v1/Systems" {
			_ = json.Unmarshal(body, &systems)
		}
	}
	h := httptest.NewServer(tree)
	defer h.Close()
	l := &lab{t: t, acct: &accounts{is: bmc.Account{User: "admin", Password: "secret"}}, mem: bmc.NewInMemory(),
		ctx: t.Context()}
	p := l.provider(redfishOnly)
	host := 0 // the first system that is no baseboard
	for i, m := range systems.Members {
		if !strings.Contains(path.Base(m.ID), "Baseboard") {
			host = i
			break
		}
	}
	if len(systems.Members) == 0 {
		t.Errorf("%s: no systems", name)
		return
	}
	m := machine(name, h.URL+strings.TrimRight(systems.Members[host].ID, "/"))
	began, said := time.Now(), []string{}
	note := func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) }
	power, err := p.PowerState(t.Context(), m)
	if err != nil {
		t.Errorf("%s: power: %v", name, err)
	}
	v, err := p.Inventory(t.Context(), m)
	if err != nil {
		t.Errorf("%s: inventory: %v", name, err)
		v = new(providers.Inventory)
	}
	for _, s := range v.Missing {
		note("missing: %s", s)
	}
	inventory := len(tree.Requests())
	health, err := p.Health(t.Context(), m)
	if err != nil {
		t.Errorf("%s: health: %v", name, err)
	}
	for _, s := range health.Unread {
		note("health unread: %s", s)
	}
	for _, s := range health.Problems {
		note("problem: %s", s.Text)
	}
	checkup := len(tree.Requests())
	log := "-"
	if events, err := p.Events(t.Context(), m, ""); err != nil {
		note("log: %v", err)
	} else {
		log = fmt.Sprint(len(events))
	}
	unnamed := 0
	for _, r := range tree.Requests() {
		if r.Unnamed {
			unnamed++
			t.Errorf("%s: %s %s: no answer named this path", name, r.Method, r.Path)
		}
	}
	for _, s := range said {
		for _, bad := range []string{"json:", "Go struct", "unmarshal", "strconv", "invalid character", "runtime error"} {
			if strings.Contains(s, bad) {
				t.Errorf("%s: text of Go: %s", name, s)
			}
		}
	}
	_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%d\t%d\t%d\t%d\t%d\t%s\t%s\t%d\t%d/%d/%d\t%d\n", name,
		strings.TrimSpace(v.Manufacturer+" "+v.Model), v.Serial, power, len(v.CPUs), len(v.GPUs), v.MemoryBytes>>30,
		len(v.Disks), len(v.NICs), len(v.PCIe), v.BMC, log, len(health.Problems),
		inventory, checkup-inventory, len(tree.Requests())-checkup, time.Since(began).Milliseconds())
	_, _ = fmt.Fprintf(notes, "%s:\n  %s\n", name, strings.Join(said, "\n  "))
	if len(health.Problems) > faulty {
		t.Errorf("%s: false alarm: %d problems, but only %d faulty parts: %+v", name, len(health.Problems), faulty,
			health.Problems)
	}
	alarms(t, name, health.Problems)
}

// faults counts the objects that report a fault of a part that is there.
func faults(v any) (n int) {
	switch v := v.(type) {
	case map[string]any:
		status, _ := v["Status"].(map[string]any)
		bad := status["Health"] == "Critical" || status["Health"] == "Warning" || v["Severity"] == "Critical"
		if bad && status["State"] != "Absent" || v["FailurePredicted"] == true || v["LineInputStatus"] == "LossOfInput" {
			n++
		}
		for _, inside := range v {
			n += faults(inside)
		}
	case []any:
		for _, inside := range v {
			n += faults(inside)
		}
	}
	return n
}

// alarms checks the problems of a machine against the list of known ones.
func alarms(t *testing.T, name string, problems []providers.Problem) {
	t.Helper()
	expect := os.Getenv("EXPECT")
	if expect == "" {
		return
	}
	known, err := os.ReadFile(expect)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		if !strings.Contains("\n"+string(known)+"\n", "\n"+name+": "+p.Text+"\n") {
			t.Errorf("%s: false alarm: %s", name, p.Text)
		}
	}
}

// capture reads a tree.
func capture(t *testing.T, file string) map[string]json.RawMessage {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatalf("read %s: %v", file, err)
	}
	var tree map[string]json.RawMessage
	if err := json.NewDecoder(z).Decode(&tree); err != nil {
		t.Fatalf("read %s: %v", file, err)
	}
	return tree
}
