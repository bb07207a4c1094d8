package ironic_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/ironic"
	"github.com/holdfast-metal/holdfast/providers/ironic/ironictest"
)

func machine(id, endpoint string) *holdfastv1.Machine {
	return &holdfastv1.Machine{MachineId: id, Spec: &holdfastv1.MachineSpec{BmcEndpoint: endpoint}}
}

// login is the only secret.
type login ironic.Login

func (l *login) Login(_ context.Context, ref string) (ironic.Login, error) {
	if ref != "ironic" {
		return ironic.Login{}, fmt.Errorf("secret %q not found", ref)
	}
	return ironic.Login(*l), nil
}

func newProvider(t *testing.T, c ironic.Config, d ironic.Deps) *ironic.Provider {
	t.Helper()
	if c.Images == nil {
		c.Images = map[string]ironic.Image{"default": {Source: "http://192.0.2.1/default.qcow2", SHA256: "abc",
			DiskFormat: "qcow2"}}
	}
	p, err := ironic.New(c, d)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// newLab returns an Ironic with the node n1 and a provider for it.
func newLab(
	t *testing.T, n ironictest.Node, config ...func(*ironic.Config),
) (*ironictest.Server, *ironic.Provider, providers.Machine) {
	t.Helper()
	s := ironictest.New(t, ironictest.Config{Step: 10 * time.Millisecond})
	n.Name = "n1"
	s.Add(n)
	c := ironic.Config{Endpoint: s.URL, LockTime: ironic.Duration(2 * time.Second)}
	for _, f := range config {
		f(&c)
	}
	return s, newProvider(t, c, ironic.Deps{}), machine("n1", "")
}

// eventually polls until ok returns true.
func eventually(t *testing.T, name string, ok func() (bool, error)) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for {
		yes, err := ok()
		if yes {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("wait for %s: timed out (last error: %v)", name, err)
		}
		pause := time.NewTimer(5 * time.Millisecond)
		<-pause.C
	}
}
