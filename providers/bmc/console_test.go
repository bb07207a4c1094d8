//go:build linux

package bmc_test

import (
	"bufio"
	"context"
	"fmt"
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
