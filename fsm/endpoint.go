package fsm

import (
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// ProofEndpoint is the evidence of a step net that the host answers at another address than before.
const ProofEndpoint = "ssh_endpoint"

// moveHost records where a host answers since its network was changed, in one with the outcome of
// the step that changed it: the next step has to reach it.
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
