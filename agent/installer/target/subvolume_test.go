package target

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRootSubvolume(t *testing.T) {
	tests := []struct {
		name    string
		roots   []string // directories with an operating system
		others  []string
		want    string
		wantErr string
	}{
		{"Fedora", []string{"root"}, []string{"home", "var"}, "root", ""},
		{"Debian", []string{"@rootfs"}, nil, "@rootfs", ""},
		{"Ubuntu, with a snapshot", []string{"@", "@snapshot-1"}, []string{"@home"}, "@", ""},
		{"openSUSE", []string{"@/.snapshots/1/snapshot"}, []string{"@/home", "@/var"}, "@/.snapshots/1/snapshot", ""},
		{"a name of its own", []string{"system"}, []string{"data"}, "system", ""},
		{"a name of its own, one level down", []string{"volumes/system"}, []string{"data"}, "volumes/system", ""},
		{"two candidates", []string{"one", "two"}, nil, "", "one, two"},
		{"none", nil, []string{"home"}, "", ""},
		{"empty", nil, nil, "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			for _, d := range tt.others {
				if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			for _, d := range tt.roots {
				if err := os.MkdirAll(filepath.Join(dir, d, "etc"), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(dir, d, "etc/os-release"), nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			got, err := rootSubvolume(dir)
			if got != tt.want || (err == nil) != (tt.wantErr == "") || err != nil && !strings.Contains(err.Error(), tt.wantErr) {
				t.Errorf("got %q, %v; want %q, an error with %q", got, err, tt.want, tt.wantErr)
			}
		})
	}
}
