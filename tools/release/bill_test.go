package main

import (
	"runtime/debug"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A module that is a directory of this repository has the version of the release, and its own name.
func TestParts(t *testing.T) {
	info := &debug.BuildInfo{GoVersion: "go1.26.8", Deps: []*debug.Module{
		{Path: "example.com/a", Version: "v1.0.0"},
		{Path: "example.com/b", Version: "v1.0.0", Replace: &debug.Module{Path: "example.com/c", Version: "v1.1.0"}},
		{Path: "github.com/holdfast-metal/holdfast/proto", Version: "v0.0.0",
			Replace: &debug.Module{Path: "./proto", Version: "(devel)"}},
		{Path: "github.com/holdfast-metal/holdfast/client", Version: "(devel)"},
	}}
	var got []string
	for _, p := range parts(info, "1.2.3") {
		got = append(got, p.PackageURL)
	}
	want := []string{"pkg:golang/stdlib@1.26.8", "pkg:golang/example.com/a@v1.0.0", "pkg:golang/example.com/c@v1.1.0",
		"pkg:golang/github.com/holdfast-metal/holdfast/proto@v1.2.3",
		"pkg:golang/github.com/holdfast-metal/holdfast/client@v1.2.3"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("modules (-want +got):\n%s", diff)
	}
}
