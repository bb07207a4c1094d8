package overlay_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-metal/holdfast/test/overlay"
)

func module(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range map[string]string{"go.mod": "module x\n\ngo 1.26\n", "go.work": "go 1.26\n\nuse .\n",
		"a/a.go": "package a\n\nfunc A() int { return 1 + 1 }\n",
		"a/a_test.go": "package a\n\nimport \"testing\"\n\nfunc TestA(t *testing.T) {\n\tif A() != 2 " +
			"{\n\t\tt.Error(A())\n\t}\n}\n"} {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestPatch(t *testing.T) {
	root := module(t)
	for _, tt := range []struct{ name, old, want string }{
		{"once", "1 + 1", ""},
		{"two occurrences", "1", "occurs 2 times"},
		{"no occurrence", "2 + 2", "occurs 0 times"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := overlay.New(root).Patch("a/a.go", tt.old, "3")
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Patch: got %v, want %q", err, tt.want)
			}
		})
	}
	if err := overlay.New(root).Patch("a/b.go", "x", "y"); err == nil {
		t.Error("patch a missing file: got no error")
	}
}

func TestGo(t *testing.T) {
	root := module(t)
	o := overlay.New(root)
	if err := o.Go(t.Context(), t.TempDir(), "test", "./..."); err != nil {
		t.Fatalf("test without changes: %v", err)
	}
	if err := o.Patch("a/a.go", "1 + 1", "B()"); err != nil {
		t.Fatal(err)
	}
	o.Set("a/b.go", "package a\n\nfunc B() int { return 3 }\n")
	if err := o.Go(t.Context(), t.TempDir(), "test", "./..."); err == nil ||
		!strings.Contains(err.Error(), "a_test.go:7: 3") {
		t.Errorf("test with changes: got %v, want a failure with 3", err)
	}
	if files, err := o.Files("a"); err != nil || len(files) != 1 || files[0] != "a/a.go" {
		t.Errorf("Files: got %v, %v, want only the file on disk", files, err)
	}
}

func TestRoot(t *testing.T) {
	root := module(t)
	if got, err := overlay.Root(filepath.Join(root, "a")); err != nil || got != root {
		t.Errorf("Root: got %q, %v, want %q", got, err, root)
	}
	if got, err := overlay.Root("/"); err == nil {
		t.Errorf("root of / = %q", got)
	}
}
