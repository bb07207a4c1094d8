package ironiclab

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRender(t *testing.T) {
	for _, tt := range []struct {
		name string
		cfg  Config
		want []string // lines
		err  string
	}{
		{"ports and workers", Config{Dir: "/d", API: "127.0.0.1:1", RPC: "127.0.0.1:2", Workers: 3},
			[]string{"state_path = /d/state", "port = 1", "api_workers = 3", "port = 2",
				"connection = sqlite:////d/ironic.sqlite"}, ""},
		{"at least one worker", Config{Dir: "/d", API: "127.0.0.1:1", RPC: "127.0.0.1:2"}, []string{"api_workers = 1"}, ""},
		{"more settings", Config{Dir: "/d", API: "127.0.0.1:1", RPC: "127.0.0.1:2", Settings: "[fake]\npower_delay = 1\n"},
			[]string{"[fake]", "power_delay = 1"}, ""},
		{"no port", Config{API: "127.0.0.1", RPC: "127.0.0.1:2"}, nil,
			`set the address of Ironic's API to 127.0.0.1:port, not "127.0.0.1"`},
		{"public address", Config{API: "127.0.0.1:1", RPC: "0.0.0.0:2"}, nil,
			`set the address of Ironic's RPC to 127.0.0.1:port, not "0.0.0.0:2"`},
	} {
		got, err := tt.cfg.render()
		if tt.err != "" {
			if err == nil || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%s: got %v, want %s", tt.name, err, tt.err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
		for _, line := range tt.want {
			if !strings.Contains("\n"+got, "\n"+line+"\n") {
				t.Errorf("%s: got\n%swant line %q", tt.name, got, line)
			}
		}
	}
}

func TestWriteAhead(t *testing.T) {
	const magic = "SQLite format 3\x00"
	for _, tt := range []struct{ name, file, want, err string }{
		{"a database", magic + "\x10\x00\x01\x01\x00", magic + "\x10\x00\x02\x02\x00", ""},
		{"another file", "this is no database at all", "this is no database at all", "begins with"},
		{"nothing", "", "", "EOF"},
	} {
		file := filepath.Join(t.TempDir(), "db")
		if err := os.WriteFile(file, []byte(tt.file), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := writeAhead(file); (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%s: got %v, want %q", tt.name, err, tt.err)
		}
		got, err := os.ReadFile(file)
		if diff := cmp.Diff(tt.want, string(got)); diff != "" || err != nil {
			t.Errorf("%s: %v, -want +got\n%s", tt.name, err, diff)
		}
	}
}

func TestMissing(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"ironic-api", "ironic-dbsync"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(filepath.Join(dir, "ironic-conductor"), Config{Programs: dir}.Missing()); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}
