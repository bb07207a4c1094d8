package localcluster

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestProgram: a program runs until it is killed, which may be more than once.
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
	if _, err := StartProgram(filepath.Join(t.TempDir(), "none"), nil, nil, filepath.Join(t.TempDir(), "log")); err == nil {
		t.Error("a program that is not there was started")
	}
}
