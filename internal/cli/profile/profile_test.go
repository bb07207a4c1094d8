package profile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSaveAndLoad(t *testing.T) {
	path := filepath.Join(t.TempDir(), "holdfast", "config.yaml")
	empty, err := Load(path)
	if diff := cmp.Diff(File{}, empty); diff != "" || err != nil {
		t.Errorf("missing file: got error %v, diff:\n%s", err, diff)
	}
	want := File{Current: "prod", Contexts: map[string]Context{
		"prod": {Addrs: []string{"10.0.0.1:7400", "10.0.0.2:7400"}, Token: "s3cret", CA: "/etc/ca.pem"},
		"lab":  {Addrs: []string{"127.0.0.1:7400"}},
	}}
	for range 2 { // the second time replaces the first
		if err := Save(path, want); err != nil {
			t.Fatal(err)
		}
	}
	got, err := Load(path)
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("got error %v, file (-want +got):\n%s", err, diff)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("got mode %v (%v), want 0600", info.Mode().Perm(), err)
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 1 {
		t.Errorf("got %d files in the directory (%v), want 1", len(entries), err)
	}
}

func TestLoadRefuses(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		mode       os.FileMode
		want       string
	}{
		{"a file that others can read", "current: prod\n", 0o644, "others can read it (mode 0644)"},
		{"a file that the group can write", "current: prod\n", 0o620, "chmod 600"},
		{"an unknown key", "current: prod\ncontext: {}\n", 0o600,
			`another file: line 2: unknown key "context": a file`},
		{"many unknown keys", "a: 1\nb: 2\nc: 3\n", 0o600, `line 1: unknown key "a" and 2 more: a file of contexts has`},
		{"an unknown key of a context", "contexts:\n  lab: {adrs: [x]}\n", 0o600,
			`line 2: unknown key "adrs" in contexts.lab: did you mean addrs?`},
		{"an address without a list", "contexts:\n  lab: {addrs: x}\n", 0o600, "contexts.lab.addrs: want a list"},
		{"a token that is a list", "contexts:\n  lab: {token: [x]}\n", 0o600, "contexts.lab.token: want one value"},
		{"a context that is a text", "contexts: {lab: x}\n", 0o600, "contexts.lab: want keys such as addrs"},
		{"a list of names", "current: [a]\n", 0o600, "line 1: a value has another form"},
		{"a text", "hello\n", 0o600, "line 1: it has no keys"},
		{"bytes", "\x00\xff\xfe", 0o600, "this is not text"},
		{"a peer's configuration", "node_id: n1\n", 0o644, "set HOLDFAST_CONTEXTS to the file of contexts"},
		{"another shape", "contexts: [a]\n", 0o600, "line 1: contexts: want the contexts by name"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "config.yaml")
			if err := os.WriteFile(path, []byte(tt.text), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(path, tt.mode); err != nil {
				t.Fatal(err)
			}
			_, err := Load(path)
			if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), path) {
				t.Errorf("got error %v, want %q and the file's name in it", err, tt.want)
			}
			if err != nil && strings.Contains(err.Error(), "profile.") {
				t.Errorf("got error %v with a Go type", err)
			}
		})
	}
}

func TestCheckName(t *testing.T) {
	for name, ok := range map[string]bool{"prod": true, "a.b_c-1": true, "": false, "a b": false, "-x": false,
		"../x": false,
		"a/b":  false, "a\n": false, strings.Repeat("x", 65): false} {
		if err := CheckName(name); (err == nil) != ok {
			t.Errorf("%q: got %v, want valid %v", name, err, ok)
		}
	}
}

func TestContext(t *testing.T) {
	lab := Context{Addrs: []string{"lab:7400"}}
	f := File{Current: "lab", Contexts: map[string]Context{"lab": lab}}
	if got, err := f.Context(""); err != nil || !cmp.Equal(got, lab) {
		t.Errorf("got current %v (%v), want lab", got, err)
	}
	if _, err := f.Context("prod"); err == nil || !strings.Contains(err.Error(), `"prod"`) {
		t.Errorf("got error %v, want prod in it", err)
	}
	if got, err := (File{}).Context(""); err != nil || !cmp.Equal(got, Context{}) {
		t.Errorf("without a current one: got %v (%v), want none", got, err)
	}
}

func TestPath(t *testing.T) {
	for _, tt := range []struct {
		env  map[string]string
		want string
	}{
		{map[string]string{"HOLDFAST_CONTEXTS": "/a/b.yaml", "HOLDFAST_CONFIG": "/peer.yaml"}, "/a/b.yaml"},
		{map[string]string{"HOLDFAST_CONFIG": "/a/b.yaml", "HOME": "/h"}, "/a/b.yaml"},
		{map[string]string{"XDG_CONFIG_HOME": "/x", "HOME": "/h"}, "/x/holdfast/config.yaml"},
		{map[string]string{"HOME": "/h"}, "/h/.config/holdfast/config.yaml"},
		{nil, ""},
	} {
		got, err := Path(func(k string) string { return tt.env[k] })
		if got != tt.want || (err != nil) != (tt.want == "") {
			t.Errorf("Path(%v): got %q (%v), want %q", tt.env, got, err, tt.want)
		}
	}
}
