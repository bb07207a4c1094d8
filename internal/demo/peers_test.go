package demo

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The log of a peer that does not start is shown.
func TestPeersThatEnd(t *testing.T) {
	dir := t.TempDir()
	binary := filepath.Join(dir, "holdfast")
	script := "#!/bin/sh\necho \"listen tcp 127.0.0.1:7400: address already in use\"\nexit 3\n"
	if err := os.WriteFile(binary, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
	defer stop()
	s := &story{dir: dir, machines: inventory(1)}
	s.board = newBoard(s.machines, time.Now)
	var err error
	if s.hardware, err = newHardware(ctx, s.machines); err != nil {
		t.Fatal(err)
	}
	defer s.hardware.ln.Close()
	err = s.startPeers(ctx, binary)
	defer func() {
		if err := s.stop(); err != nil {
			t.Errorf("stop the other peers: %v", err)
		}
	}()
	if err == nil {
		t.Fatal("start of peers that end at once: got no error")
	}
	if got := err.Error(); !strings.Contains(got, "a peer ended unexpectedly: peer n") ||
		!strings.Contains(got, "exit status 3") {
		t.Errorf("got error %q, want the peer and its exit status", got)
	}
	var out strings.Builder
	(&console{err: &out}).logs(err)
	if !strings.Contains(out.String(), "address already in use") {
		t.Errorf("got output without logs: %q", out.String())
	}
	out.Reset()
	(&console{err: &out}).logs(errors.New("something else"))
	if out.Len() > 0 {
		t.Errorf("got logs of other peers: %q", out.String())
	}
}

func TestDirectory(t *testing.T) {
	used := t.TempDir()
	if err := os.WriteFile(filepath.Join(used, "x"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name  string
		o     options
		want  string // part of the error
		stays bool
	}{
		{"temporary", options{}, "", false},
		{"temporary and kept", options{keepDir: true}, "", true},
		{"named", options{dir: filepath.Join(t.TempDir(), "new")}, "", true},
		{"used", options{dir: used}, "is not empty", true},
	}
	t.Setenv("TMPDIR", t.TempDir())
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := &story{options: tt.o}
			remove, err := s.makeDir()
			if tt.want != "" {
				if err == nil || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("got %v, want %s", err, tt.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if err := remove(); err != nil {
				t.Fatal(err)
			}
			if _, err := os.Stat(s.dir); (err == nil) != tt.stays {
				t.Errorf("at the end: got %v, want it kept: %v", err, tt.stays)
			}
		})
	}
}
