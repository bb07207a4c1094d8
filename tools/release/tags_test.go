package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// makeTags runs make tags in the repository, as a person does: not as part of another make.
func makeTags(t *testing.T, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "make", append([]string{"-s", "-C", "../..", "tags"}, args...)...)
	cmd.Env = append(os.Environ(), "MAKEFLAGS=", "MAKELEVEL=")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// Each module that others import has a tag of its own.
func TestTags(t *testing.T) {
	var want []string
	for _, module := range []string{"", "proto/", "client/"} {
		if _, err := os.Stat(filepath.Join("../..", module, "go.mod")); err == nil {
			want = append(want, "git tag -s "+module+"v1.2.3 -m 'Holdfast 1.2.3'")
		}
	}
	got, err := makeTags(t, "VERSION=1.2.3")
	if err != nil {
		t.Fatalf("make tags: %v\n%s", err, got)
	}
	if diff := cmp.Diff(want, strings.Split(strings.TrimSpace(got), "\n")); diff != "" {
		t.Errorf("commands (-want +got):\n%s", diff)
	}
	if got, err := makeTags(t); err == nil || !strings.Contains(got, "tags: set the version") {
		t.Errorf("without a version: got error %v and\n%s", err, got)
	}
}
