package prometheusapi

import (
	"testing"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

func TestHostAddress(t *testing.T) {
	all := func() *holdfastv1.Machine {
		return &holdfastv1.Machine{
			Spec:  &holdfastv1.MachineSpec{SshEndpoint: "root@10.0.0.1:22"},
			Node:  &holdfastv1.NodeRecord{IpAddress: "10.0.0.2"},
			Agent: &holdfastv1.AgentRecord{PrivateIp: "10.0.0.3"},
		}
	}
	for _, c := range []struct {
		name string
		with func(m *holdfastv1.Machine)
		want string
	}{
		{"address of the agent", func(*holdfastv1.Machine) {}, "10.0.0.3"},
		{"then the installer", func(m *holdfastv1.Machine) { m.Agent = nil }, "10.0.0.2"},
		{"then the operator", func(m *holdfastv1.Machine) { m.Agent, m.Node = nil, nil }, "10.0.0.1"},
		{"no address", func(m *holdfastv1.Machine) { m.Agent, m.Node, m.Spec = nil, nil, nil }, ""},
	} {
		m := all()
		c.with(m)
		if got := hostAddress(m); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

func TestHostOf(t *testing.T) {
	for endpoint, want := range map[string]string{
		"": "", "h": "h", "h:22": "h", "root@h:22": "h", "root@h": "h", "10.0.0.1": "10.0.0.1",
		"[2001:db8::1]:22": "2001:db8::1", "[2001:db8::1]": "2001:db8::1", "2001:db8::1": "2001:db8::1",
		"https://h/redfish/v1": "h", "https://[2001:db8::1]:8443/": "2001:db8::1", "ipmi://admin@h:623": "h",
		"https://%zz": "",
	} {
		if got := hostOf(endpoint); got != want {
			t.Errorf("%q: got %q, want %q", endpoint, got, want)
		}
	}
}
