package app

import (
	"cmp"
	"runtime"
	"runtime/debug"
)

// Build describes this binary.
type Build struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// ThisBuild returns the build of a version, with the data stamped by the Go tool.
func ThisBuild(version string) Build {
	b := Build{Version: cmp.Or(version, "unknown"), Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	b.Version = cmp.Or(version, info.Main.Version, b.Version)
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			b.Revision = s.Value
		}
	}
	return b
}
