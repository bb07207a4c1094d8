package portowner

import (
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"strings"
	"testing"
)

func TestExplainNamesTheProcess(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("needs /proc")
	}
	taken, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	addr := taken.Addr().String()
	ln, err := new(net.ListenConfig).Listen(t.Context(), "tcp", addr)
	if err == nil {
		_ = ln.Close()
		t.Fatal("got a second listener on a port")
	}
	comm, e := os.ReadFile("/proc/self/comm")
	if e != nil {
		t.Fatal(e)
	}
	want := fmt.Sprintf("%s (pid %d) listens there", strings.TrimSpace(string(comm)), os.Getpid())
	if got := Explain(err, addr).Error(); !strings.Contains(got, want) {
		t.Errorf("got error %q, want %q in it", got, want)
	}
	_, port, _ := net.SplitHostPort(addr)
	if got := find(t.TempDir(), port); got != "" {
		t.Errorf("without /proc: got owner %q, want none", got)
	}
	other := errors.New("permission denied")
	if got := Explain(other, addr); !errors.Is(got, other) || got.Error() != other.Error() {
		t.Errorf("another error: got %q, want it unchanged", got)
	}
}
