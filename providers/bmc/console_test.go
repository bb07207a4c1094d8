//go:build linux

package bmc_test

import (
	"bufio"
	"context"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/bmc"
)

func TestConsole(t *testing.T) {
	t.Parallel()
	l := newIPMILab(t, ipmiSim)
	ctx, cancel := context.WithCancel(l.ctx)
	defer cancel()
	c, err := l.p.OpenConsole(ctx, l.m)
	l.ok("open", err)
	_, err = l.p.OpenConsole(l.ctx, l.m)
	l.class("open a second one", err, providers.Transient)
	if _, err := c.Write([]byte("~.&?\n")); err != nil { // the default escape sequences of ipmitool are only text
		t.Fatal(err)
	}
	r := bufio.NewReader(c)
	line := ""
	for !strings.Contains(line, "~.&?") {
		if line, err = r.ReadString('\n'); err != nil {
			t.Fatalf("read: %v", err)
		}
	}
	cancel()
	if _, err := r.ReadString('\x00'); err == nil {
		t.Error("got an open console after the end of its context")
	}
	l.ok("close", c.Close())
	var last error
	defer func() { t.Logf("last: %v", last) }()
	l.eventually("a second console", func() bool {
		c, err := l.p.OpenConsole(l.ctx, l.m)
		if err == nil {
			err = c.Close()
		}
		last = err
		return err == nil
	})
	l.m.Labels[bmc.ProtocolLabel] = "redfish"
	_, err = l.p.OpenConsole(l.ctx, l.m)
	l.class("where IPMI is not to be spoken", err, providers.Unsupported)
}

// A console that a killed process left open at the BMC is taken over.
func TestConsoleLeftOpen(t *testing.T) {
	t.Parallel()
	l := newIPMILab(t, ipmiSim)
	_, port, _ := strings.Cut(strings.TrimPrefix(l.m.GetSpec().GetBmcEndpoint(), "ipmi://"), ":")
	left := exec.CommandContext(t.Context(), "stdbuf", "-o0", needs(t, "ipmitool", "ipmitool"), "-I", "lanplus",
		"-H", "127.0.0.1", "-p", port, "-U", "admin", "-P", "secret", "-C", "3", "sol", "activate")
	in, err := left.StdinPipe() // at its end, ipmitool would deactivate the console
	l.ok("open its input", err)
	defer func() { _ = in.Close() }()
	out, err := left.StdoutPipe()
	l.ok("open its output", err)
	l.ok("start ipmitool", left.Start())
	r, line := bufio.NewReader(out), ""
	for !strings.Contains(line, "SOL Session operational") {
		if line, err = r.ReadString('\n'); err != nil {
			t.Fatalf("activate: %v", err)
		}
	}
	l.ok("kill ipmitool", left.Process.Kill())
	_ = left.Wait()
	c, err := l.p.OpenConsole(l.ctx, l.m)
	l.ok("open a console that is active", err)
	l.ok("close", c.Close())
}

// A closed console can be opened again at once.
func TestConsoleIsFreeWhenClosed(t *testing.T) {
	t.Parallel()
	l := newIPMILab(t, ipmiSim)
	for i := range 20 {
		c, err := l.p.OpenConsole(l.ctx, l.m)
		l.ok(fmt.Sprintf("open console %d", i), err)
		l.ok("close", c.Close())
	}
}
