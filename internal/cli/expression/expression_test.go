package expression

import (
	"strings"
	"testing"
)

const list = `{"machines": [
	{"machine_id": "m-1", "labels": {"rack": "r7", "a.b/c": "x"}, "revision": 3, "status": {"phase": "READY", "ok": true}},
	{"machine_id": "m-2", "labels": {}, "revision": 4000000000, "status": {"phase": "RMA", "ok": false}}]}`

func TestExecute(t *testing.T) {
	for _, tt := range []struct{ kind, text, want string }{
		{JSONPath, "{.machines[*].machine_id}", "m-1 m-2\n"},
		{JSONPath, ".machines[0].status.phase", "READY\n"},
		{JSONPath, "machines[0].status.phase", "READY\n"},
		{JSONPath, `{range .machines[*]}{.machine_id}={.revision}{"\n"}{end}`, "m-1=3\nm-2=4000000000\n"},
		{JSONPath, `{.machines[?(@.status.phase=="RMA")].machine_id}`, "m-2\n"},
		{JSONPath, `{.machines[?(@.revision>10)].machine_id}`, "m-2\n"},
		{JSONPath, `{.machines[0].labels.a\.b/c}`, "x\n"},
		{JSONPath, "{.machines[*].labels.rack}", "r7\n"},
		{JSONPath, "{.nothing}", ""},
		{JSONPath, "{.machines[1].labels}", "{}\n"},
		{GoTemplate, `{{range .machines}}{{.machine_id}} {{.status.ok}};{{end}}`, "m-1 true;m-2 false;\n"},
		{GoTemplate, `{{len .machines}}`, "2\n"},
	} {
		e, err := Parse(tt.kind, tt.text)
		if err != nil {
			t.Errorf("%s: %v", tt.text, err)
			continue
		}
		var b strings.Builder
		if err := e.Execute(&b, []byte(list)); err != nil || b.String() != tt.want {
			t.Errorf("%s: got %q (%v), want %q", tt.text, b.String(), err, tt.want)
		}
	}
}

func TestErrors(t *testing.T) {
	for _, tt := range []struct{ kind, text, want string }{
		{JSONPath, "", "the expression is missing"},
		{JSONPath, "{.machines[}", "parse the path"},
		{JSONPath, "{.machines", "parse the path"},
		{GoTemplate, "{{.x", "parse the template"},
	} {
		if _, err := Parse(tt.kind, tt.text); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("Parse(%q): got error %v, want %q in it", tt.text, err, tt.want)
		}
	}
	e, err := Parse(JSONPath, "{.machines[7].machine_id}")
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Execute(&strings.Builder{}, []byte(list)); err == nil || !strings.Contains(err.Error(), "out of bounds") {
		t.Errorf("got error %v, want a missing eighth machine", err)
	}
}
