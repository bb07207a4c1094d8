package sshexec_test

import (
	"testing"
	"time"

	"github.com/holdfast-metal/holdfast/providers/providertest"
)

// TestSystemdHost holds the provider to what it promises on a real systemd host.
func TestSystemdHost(t *testing.T) {
	c := bootContainer(t)
	p := c.provider(t)
	t.Run("Conformance", func(t *testing.T) {
		silent := silentMachine(t)
		providertest.Run(t, func(*testing.T) providertest.Setup {
			return providertest.Setup{
				Provider: p, Machine: c.machine(), Silent: silent, Missing: machineAt("missing", "127.0.0.1:1"),
				Wait: 20 * time.Second, Poll: 20 * time.Millisecond, Rollback: 4 * time.Second,
				NetConfig: "[Match]\nName=host0\n[Network]\nAddress=" + c.net + ".2/24\nAddress=" + c.net + ".3/24\n",
			}
		})
	})
}
