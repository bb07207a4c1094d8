package demo

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestMakeDir(t *testing.T) {
	used := t.TempDir()
	file := filepath.Join(used, "x")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", t.TempDir())
	t.Chdir(t.TempDir())
	tests := []struct {
		name, dir string
		want      string // part of the error
	}{
		{"temporary", "", ""},
		{"new", filepath.Join(t.TempDir(), "a", "b"), ""},
		{"relative", "c", ""},
		{"used", used, used + ": it is not empty: name an empty or a new directory"},
		{"a file", file, file},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir, err := makeDir(tt.dir)
			if tt.want != "" {
				if err == nil || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("got %v, want %s", err, tt.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if st, err := os.Stat(dir); err != nil || !st.IsDir() || !filepath.IsAbs(dir) {
				t.Errorf("got %s, want an absolute directory: %v", dir, err)
			}
		})
	}
}

// A demo whose peers cannot start says so with the end of a log, and removes its files.
func TestPeersThatEnd(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	var out, errs strings.Builder
	err := run(t.Context(), options{machines: 1, exit: true, json: true}, &out, &errs)
	if err == nil {
		t.Fatal("run a demo with peers that end at once: got no error")
	}
	for _, want := range []string{"peer n", "exit status 3", "address already in use"} {
		if got := err.Error(); !strings.Contains(got, want) {
			t.Errorf("got error %q, want %q in it", got, want)
		}
	}
	if out.Len() > 0 || !strings.Contains(errs.String(), "   0.0 s  starting n1, n2, n3, ") {
		t.Errorf("with --json: got output %q, progress %q", out.String(), errs.String())
	}
	if left, err := os.ReadDir(tmp); err != nil || len(left) > 0 {
		t.Errorf("got files left behind: %v, %v", left, err)
	}
}

// TestMain is also the peer that TestPeersThatEnd starts.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "server" {
		_, _ = os.Stdout.WriteString("listen tcp 127.0.0.1:7400: address already in use\n")
		os.Exit(3)
	}
	os.Exit(m.Run())
}
