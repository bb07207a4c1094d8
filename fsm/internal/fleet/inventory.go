package fleet

import (
	"cmp"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/fsm/internal/access"
	"github.com/holdfast-metal/holdfast/fsm/internal/core"
	"github.com/holdfast-metal/holdfast/fsm/internal/events"
	"github.com/holdfast-metal/holdfast/fsm/internal/lex"
	"github.com/holdfast-metal/holdfast/fsm/internal/refusal"
	"github.com/holdfast-metal/holdfast/fsm/internal/schema"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// checkOwned refuses a machine with a key that belongs to another one.
func checkOwned(t *core.Tx, m *holdfastv1.Machine) *refusal.Error {
	for _, key := range schema.Owned(m) {
		if other, ok := t.Machines.Lookup(schema.MachinesByOwned, key); ok && other.GetMachineId() != m.GetMachineId() {
			if strings.HasPrefix(key, schema.OwnedBMC) { // as the caller writes it
				key = schema.OwnedBMC + m.GetSpec().GetBmcEndpoint()
			}
			return conflict(t, other, "%s belongs to machine %q", key, other.GetMachineId())
		}
	}
	return nil
}

// conflict returns the refusal of a value that another machine has. A caller that may not see that
// machine learns nothing about it.
func conflict(t *core.Tx, other *holdfastv1.Machine, format string, args ...any) *refusal.Error {
	err := refusal.New(refusal.AlreadyExists, ReasonMachineConflict, format, args...).
		With("machine_id", other.GetMachineId())
	if access.Scoped(t) && !access.Sees(t, other.GetSpec().GetPool()) {
		err.Shown = refusal.New(refusal.AlreadyExists, ReasonMachineConflict,
			"%v cannot be used: check the value, or ask an operator of all pools", args[0])
	}
	return err
}

// ReasonMachineConflict is the reason for refusing a machine with a value that another one has.
const ReasonMachineConflict = "MACHINE_CONFLICT"

// checkEndpoints refuses an endpoint at which each peer would reach itself or its cloud, if the
// caller is limited to pools. It could otherwise probe and use what only the peers' hosts may
// reach.
func checkEndpoints(t *core.Tx, old, m *holdfastv1.Machine) *refusal.Error {
	if !access.Scoped(t) {
		return nil
	}
	for _, f := range []struct{ name, was, is string }{
		{"bmc_endpoint", old.GetSpec().GetBmcEndpoint(), m.GetSpec().GetBmcEndpoint()},
		{"ssh_endpoint", old.GetSpec().GetSshEndpoint(), m.GetSpec().GetSshEndpoint()},
	} {
		if f.is != f.was {
			if err := CheckEndpoint(t, "machine.spec."+f.name, f.is); err != nil {
				return err
			}
		}
	}
	return nil
}

// CheckEndpoint is checkEndpoints for one endpoint in a field of a request.
func CheckEndpoint(t *core.Tx, field, endpoint string) *refusal.Error {
	if what := lex.PeerOnly(endpoint); what != "" && access.Scoped(t) {
		return refusal.InvalidField(field, "%q is %s: enter the address of the machine, or ask an operator of all pools",
			lex.Clip(endpoint, 100), what)
	}
	return nil
}

// checkSteady refuses to change the hardware of a machine during an active run, because the
// run would operate other hardware.
func checkSteady(old, m *holdfastv1.Machine) *refusal.Error {
	run := old.GetStatus().GetActiveRunId()
	if run == "" {
		return nil
	}
	if MovesHardware(old, m) {
		return refusal.New(refusal.FailedPrecondition, refusal.ReasonActiveRun,
			"machine %q has the active run %s: its provider and endpoints cannot change before that ends",
			m.GetMachineId(), run).
			With("run_id", run)
	}
	return nil
}

// RegisterMachine creates a machine, or replaces its spec or labels if the request has them.
func RegisterMachine(t *core.Tx, c *internalv1.RegisterMachine) (*holdfastv1.Machine, *refusal.Error) {
	in := c.GetMachine()
	if err := refusal.Invalid(NormalizeMachine(in)); err != nil {
		return nil, err
	}
	if in.GetMachineId() == "" {
		return nil, refusal.InvalidField("machine.machine_id", "is required")
	}
	old, exists := t.Machines.Get(in.GetMachineId())
	if exists {
		if c.GetGeneratedId() {
			return nil, refusal.New(refusal.Aborted, refusal.ReasonIDTaken, "generated machine id %q is in use",
				in.GetMachineId())
		}
		m := proto.CloneOf(old)
		if in.GetSpec() != nil {
			m.Spec = in.GetSpec()
		}
		if len(in.GetLabels()) > 0 {
			m.Labels = in.GetLabels()
		}
		return replaceInventory(t, old, m)
	}
	if err := checkSpelling(t, in.GetMachineId()); err != nil {
		return nil, err
	}
	m := &holdfastv1.Machine{MachineId: in.GetMachineId(), Labels: in.GetLabels(), Spec: in.GetSpec(), CreatedAt: t.Now,
		Status: &holdfastv1.MachineStatus{NodeState: holdfastv1.Node_PENDING}}
	if m.Spec == nil {
		m.Spec = &holdfastv1.MachineSpec{}
	}
	if err := checkEndpoints(t, nil, m); err != nil {
		return nil, err
	}
	if err := checkOwned(t, m); err != nil {
		return nil, err
	}
	if err := access.CheckSecretPools(t, m); err != nil {
		return nil, err
	}
	phase := holdfastv1.MachineStatus_READY
	if in.GetStatus().GetPhase() == holdfastv1.MachineStatus_FACTORY_READY {
		phase = holdfastv1.MachineStatus_FACTORY_READY
	}
	MovePhase(t, m, phase, Change{By: "operator", Comment: "registered"})
	PutMachine(t, m)
	return Whole(t.State, m), nil
}

// UpdateMachine replaces spec and labels, or the fields in the mask.
func UpdateMachine(t *core.Tx, c *internalv1.UpdateMachine) (*holdfastv1.Machine, *refusal.Error) {
	in := c.GetMachine()
	old, ok := t.Machines.Get(in.GetMachineId())
	if !ok {
		return nil, MachineNotFound(in.GetMachineId())
	}
	m := proto.CloneOf(old)
	if err := MergeMachine(t, m, in, c.GetPaths()); err != nil {
		return nil, err
	}
	if err := refusal.Invalid(NormalizeMachine(m)); err != nil {
		return nil, err
	}
	return replaceInventory(t, old, m)
}

func replaceInventory(t *core.Tx, old, m *holdfastv1.Machine) (*holdfastv1.Machine, *refusal.Error) {
	if err := checkEndpoints(t, old, m); err != nil {
		return nil, err
	}
	if err := checkOwned(t, m); err != nil {
		return nil, err
	}
	if err := checkSteady(old, m); err != nil {
		return nil, err
	}
	if err := access.CheckSecretPools(t, m); err != nil {
		return nil, err
	}
	if m.GetAgent().GetUnapproved() {
		m.Agent.Unapproved = false
		events.AddHistory(t, m, &holdfastv1.HistoryEntry{Facet: "inventory", To: "agent.unapproved", TriggeredBy: "operator",
			Comment: "approved by a change"})
		PutMachine(t, m)
	}
	if changed := inventoryDiff(old, m); changed != "" {
		if !slices.Equal(old.GetSpec().GetMacAddresses(), m.GetSpec().GetMacAddresses()) ||
			old.GetSpec().GetSerial() != m.GetSpec().GetSerial() {
			endConflict(t, m, lasting)
		}
		events.AddHistory(t, m, &holdfastv1.HistoryEntry{Facet: "inventory", To: changed, TriggeredBy: "operator"})
		PutMachine(t, m)
		if old.GetSpec().GetSerial() != m.GetSpec().GetSerial() {
			m, _ = Edit(t, m.GetMachineId())
			recheckBoards(t, m)
			PutMachine(t, m)
		}
	}
	return Whole(t.State, m), nil
}

// MovesHardware reports whether a change makes a machine refer to other hardware.
func MovesHardware(old, m *holdfastv1.Machine) bool {
	return ProviderOf(old) != ProviderOf(m) || old.GetSpec().GetBmcEndpoint() != m.GetSpec().GetBmcEndpoint() ||
		old.GetSpec().GetSshEndpoint() != m.GetSpec().GetSshEndpoint()
}

// ProviderOf returns the provider named by a machine, or "" if configuration decides.
// StartRun.checked_provider is compared with it.
func ProviderOf(m *holdfastv1.Machine) string {
	return cmp.Or(m.GetSpec().GetProvider(), m.GetLabels()["provider"])
}
