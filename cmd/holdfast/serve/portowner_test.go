package serve

import (
	"fmt"
	"net"
	"os"
	"runtime"
	"strings"
	"testing"
)

func TestPortInUseNamesItsProcess(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("needs /proc")
	}
	taken, err := listen(t.Context(), "grpc-addr", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	ln, err := listen(t.Context(), "http-addr", taken.Addr().String())
	if err == nil {
		_ = ln.Close()
		t.Fatal("got a second listener on a port")
	}
	comm, e := os.ReadFile("/proc/self/comm")
	if e != nil {
		t.Fatal(e)
	}
	want := fmt.Sprintf("%s (pid %d) listens there", strings.TrimSpace(string(comm)), os.Getpid())
	if !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "--http-addr") {
		t.Errorf("got error %v, want --http-addr and %q in it", err, want)
	}
	_, port, _ := net.SplitHostPort(taken.Addr().String())
	if got := portOwner(t.TempDir(), port); got != "" {
		t.Errorf("without /proc: got owner %q, want none", got)
	}
}
