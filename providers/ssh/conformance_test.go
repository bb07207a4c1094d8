package sshexec_test

import (
	"net"
	"testing"
	"time"

	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/providertest"
)

func TestConformanceWithoutSystemd(t *testing.T) {
	s := startSSHD(t)
	p := s.provider(t)
	silent := silentMachine(t)
	providertest.Run(t, func(*testing.T) providertest.Setup {
		return providertest.Setup{
			Provider: p, Machine: s.machine(), Silent: silent, Missing: machineAt("missing", "127.0.0.1:1"),
			Wait: 20 * time.Second, Poll: 20 * time.Millisecond,
		}
	})
}

// silentMachine returns a machine that accepts connections and does not answer.
func silentMachine(t *testing.T) providers.Machine {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return machineAt("silent", l.Addr().String())
}
