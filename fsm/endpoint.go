package fsm

import (
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// ProofEndpoint is the evidence key of a step net for the new address of the host.
const ProofEndpoint = "ssh_endpoint"

// moveHost records the new address of a host, together with the outcome of the step that
// changed its network, because the next step has to reach it.
func (t *tx) moveHost(machine, endpoint string) {
	m, ok := t.machines.get(machine)
	if !ok || m.GetSpec().GetSshEndpoint() == endpoint {
		return
	}
	if m.Spec == nil {
		m.Spec = &holdfastv1.MachineSpec{}
	}
	m.Spec.SshEndpoint = endpoint
	t.putMachine(m)
}
