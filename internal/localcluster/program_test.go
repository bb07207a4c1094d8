package localcluster

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestProgram checks that a program runs until it is killed, which may happen twice.
func TestProgram(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p, err := StartProgram(self, []string{"nonsense"}, []string{"LOCALCLUSTER_PEER=1"}, filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	<-p.Done()
	if got := p.LogTail(100); !strings.Contains(got, "unknown command") || p.PID() == 0 {
		t.Errorf("got log %q of process %d", got, p.PID())
	}
	for range 2 {
		if err := p.Kill(); err != nil {
			t.Error(err)
		}
	}
	if _, err := StartProgram(filepath.Join(t.TempDir(), "none"), nil, nil,
		filepath.Join(t.TempDir(), "log")); err == nil {
		t.Error("start a missing program: got no error")
	}
}

// TestProgramKillsItsChildren checks that the child processes of a program end with it.
func TestProgramKillsItsChildren(t *testing.T) {
	p, err := StartProgram("/bin/sh", []string{"-c", "sleep 600 & echo $!; wait"}, nil, filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(20 * time.Second)
	poll := func(what string, ok func() bool) {
		for ; !ok(); <-time.After(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("wait for %s: timed out", what)
			}
		}
	}
	poll("the child says its id", func() bool { return strings.HasSuffix(p.LogTail(100), "\n") })
	child := strings.TrimSpace(p.LogTail(100))
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
	poll("the end of the child", func() bool { // or a zombie, if no process waits for it
		stat, err := os.ReadFile(filepath.Join("/proc", child, "stat"))
		return err != nil || strings.Contains(string(stat), ") Z ")
	})
}
