//go:build linux

package bmc_test

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/bmc"
)

// running returns the processes of ipmitool with a connection to a port.
func running(t *testing.T, port int) (pids []string) {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		b, _ := os.ReadFile(f) // the process may have ended
		if argv := bytes.Split(b, []byte{0}); strings.HasSuffix(string(argv[0]), "ipmitool") &&
			bytes.Contains(b, []byte("\x00-p\x00"+strconv.Itoa(port)+"\x00")) {
			pids = append(pids, filepath.Base(filepath.Dir(f)))
		}
	}
	return pids
}

// A press must not continue when its leader is dead, or stopped for longer than a command may take:
// ipmitool ends with its leader, and in time without it.
func TestIpmitoolDoesNotOutliveItsLeader(t *testing.T) {
	if port := os.Getenv("HOLDFAST_TEST_PRESS"); port != "" { // this is the leader
		l := &lab{t: t, acct: &accounts{is: bmc.Account{User: "admin", Password: "secret"}}, mem: bmc.NewInMemory(),
			ctx: t.Context()}
		l.p = l.provider(func(c *bmc.Config) {
			c.CommandTime = 8 * time.Second
			if os.Getenv("HOLDFAST_TEST_SIGNAL") == "KILL" {
				c.CommandTime = time.Minute
			}
		})
		_ = l.p.SetPower(l.ctx, op("power"), machine("m-1", "ipmi://127.0.0.1:"+port), providers.ActionHardOff)
		return
	}
	needs(t, "ipmitool", "ipmitool")
	for name, signal := range map[string]syscall.Signal{"KILL": syscall.SIGKILL, "STOP": syscall.SIGSTOP} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			silent, err := net.ListenPacket("udp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = silent.Close() }()
			port := silent.LocalAddr().(*net.UDPAddr).Port
			leader := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestIpmitoolDoesNotOutliveItsLeader$")
			leader.Env = append(os.Environ(), "HOLDFAST_TEST_PRESS="+strconv.Itoa(port), "HOLDFAST_TEST_SIGNAL="+name)
			if err := leader.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() {
				_ = leader.Process.Kill()
				_ = leader.Wait()
			}()
			l := &lab{t: t, ctx: t.Context()}
			if err := silent.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
				t.Fatal(err)
			}
			if _, _, err := silent.ReadFrom(make([]byte, 1500)); err != nil {
				t.Fatalf("wait for a packet of ipmitool: %v", err)
			}
			if err := leader.Process.Signal(signal); err != nil {
				t.Fatal(err)
			}
			l.eventually("the end of ipmitool", func() bool { return len(running(t, port)) == 0 })
		})
	}
}
