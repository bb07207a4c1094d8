package compat

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestProtoRules records the protos of this tree and changes a copy of them: tools/compat.sh must
// find each break, and nothing else.
func TestProtoRules(t *testing.T) {
	buf := os.Getenv("COMPAT_BUF")
	if buf == "" {
		t.Skip("NOT TESTED: it needs buf, which make compat builds")
	}
	root := t.TempDir()
	link := filepath.Join(root, "bin", "tools", "buf")
	if err := os.MkdirAll(filepath.Dir(link), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(buf, link); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"proto", "tools/buf"} {
		if err := os.CopyFS(filepath.Join(root, part), os.DirFS(filepath.Join("../..", part))); err != nil {
			t.Fatal(err)
		}
	}
	script := filepath.Join(root, "tools", "compat.sh")
	if err := os.WriteFile(script, []byte(readFile(t, "../../tools/compat.sh")), 0o755); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) (string, error) {
		out, err := exec.CommandContext(t.Context(), script, args...).CombinedOutput()
		return string(out), err
	}
	if out, err := run("record", "0.1.0"); err != nil {
		t.Fatalf("record: %v\n%s", err, out)
	}
	if out, err := run("record", "0.1.0"); err == nil {
		t.Errorf("record a release again: got no error:\n%s", out)
	}
	for _, tt := range []struct {
		name, file, old, new string
		want                 string // of the output; empty: no break
	}{
		{"nothing", "holdfast/v1/run.proto", "message GetRunRequest {", "message GetRunRequest {", ""},
		{"a new field", "holdfast/v1/run.proto", "message GetRunRequest {",
			"message GetRunRequest {\n  bool compat = 99;", ""},
		{"a new comment", "holdfast/v1/run.proto", "message GetRunRequest {", "// For tests.\nmessage GetRunRequest {", ""},
		{"another name of a field", "holdfast/v1/run.proto", "string run_id = 1; // generated", "string id = 1; // generated",
			`changed name from "run_id" to "id"`},
		{"another type", "holdfast/v1/run.proto", "string run_id = 1; // generated", "bytes run_id = 1; // generated",
			`changed type from "string" to "bytes"`},
		{"a method less", "holdfast/v1/run.proto", "rpc GetRun(", "rpc FetchRun(", `Previously present RPC "GetRun"`},
		{"a message less", "holdfast/v1/run.proto", "GetRunRequest", "FetchRunRequest",
			`Previously present message "GetRunRequest"`},
		{"another name between peers", "internal/v1/peer.proto", "bool prepare = 3", "bool ready = 3", ""},
		{"another number between peers", "internal/v1/peer.proto", "bool prepare = 3", "bool prepare = 99",
			`Previously present field "3"`},
		{"a method less between peers", "internal/v1/peer.proto", "rpc Confirm(", "rpc Affirm(",
			`Previously present RPC "Confirm"`},
	} {
		file := filepath.Join(root, "proto", tt.file)
		was := readFile(t, file)
		if !strings.Contains(was, tt.old) {
			t.Errorf("%s: %s has no %q: adapt this test", tt.name, tt.file, tt.old)
			continue
		}
		if err := os.WriteFile(file, []byte(strings.ReplaceAll(was, tt.old, tt.new)), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := run("check")
		if (err != nil) != (tt.want != "") || !strings.Contains(out, tt.want) {
			t.Errorf("%s: got error %v, want output with %q:\n%s", tt.name, err, tt.want, out)
		}
		if err := os.WriteFile(file, []byte(was), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
