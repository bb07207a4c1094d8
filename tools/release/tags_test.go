package main

import (
	"os"
	"os/exec"
	"regexp"
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

// version returns the version of the API that the SDK requires: that of the next release.
func version(t *testing.T) string {
	t.Helper()
	file, err := os.ReadFile("../../client/go.mod")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`holdfast/proto v(\S+)`).FindSubmatch(file)
	if m == nil {
		t.Fatal("client/go.mod requires no version of the API")
	}
	return string(m[1])
}

// Each module that others import has a tag of its own, and requires the others at that version.
func TestTags(t *testing.T) {
	v := version(t)
	var want []string
	for _, module := range []string{"", "proto/", "client/"} {
		want = append(want, "git tag -s "+module+"v"+v+" -m 'Holdfast "+v+"'")
	}
	got, err := makeTags(t, "VERSION="+v)
	if err != nil {
		t.Fatalf("make tags: %v\n%s", err, got)
	}
	if diff := cmp.Diff(want, strings.Split(strings.TrimSpace(got), "\n")); diff != "" {
		t.Errorf("commands (-want +got):\n%s", diff)
	}
	if got, err := makeTags(t); err == nil || !strings.Contains(got, "tags: set the version") {
		t.Errorf("without a version: got error %v and\n%s", err, got)
	}
	if got, err := makeTags(t, "VERSION=999.0.1"); err == nil || !strings.Contains(got, "make versions VERSION=999.0.1") {
		t.Errorf("before the modules require it: got error %v and\n%s", err, got)
	}
}
