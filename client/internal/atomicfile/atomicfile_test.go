package atomicfile

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestWrite(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "id")
	for _, text := range []string{"a long text at first", "short"} {
		if err := Write(path, []byte(text)); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(path)
		if err != nil || string(got) != text {
			t.Errorf("file: got %q, %v, want %q", got, err, text)
		}
	}
	if diff := cmp.Diff([]string{"id"}, names(t, dir)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("got mode %v, %v, want 0600", info.Mode(), err)
	}
}

func TestFailedWriteLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	// A directory that is not empty cannot be replaced.
	if err := os.MkdirAll(filepath.Join(dir, "id", "below"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := Write(filepath.Join(dir, "id"), []byte("x")); err == nil {
		t.Error("Write over a directory: got no error")
	}
	if diff := cmp.Diff([]string{"id"}, names(t, dir)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	if err := Write(filepath.Join(dir, "missing", "id"), []byte("x")); err == nil {
		t.Error("Write without a directory: got no error")
	}
}
