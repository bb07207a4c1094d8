package fsm

import (
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/fsm/internal/core"
	"github.com/holdfast-metal/holdfast/fsm/internal/fleet"
	"github.com/holdfast-metal/holdfast/fsm/internal/lex"
	"github.com/holdfast-metal/holdfast/fsm/internal/runs"
	"github.com/holdfast-metal/holdfast/fsm/internal/schema"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// runSubject returns the machine of a run as the subject. An unknown run belongs to no
// caller, and the command reports that it is unknown.
func runSubject(t *core.Tx, id string) subject {
	run, ok := t.Runs.Get(id)
	if !ok {
		return subject{resource: "runs/" + lex.Ident(id), machines: []string{""}}
	}
	about := subject{resource: "machines/" + run.GetMachineId() + "/runs/" + run.GetRunId()}
	if t.Machines.Has(run.GetMachineId()) { // a deleted one is in no pool
		about.machines = []string{run.GetMachineId()}
	}
	return about
}

// newMachine returns the subject of a command that finds a machine or makes it in a pool.
func newMachine(t *core.Tx, id, pool string) subject {
	about := machineSubject(id)
	if pool != "" || !t.Machines.Has(id) {
		about.pools = []string{pool}
	}
	return about
}

// inventorySubject returns the subject of a command that replaces or merges a machine's spec.
// It includes the pool before and after.
func inventorySubject(t *core.Tx, in *holdfastv1.Machine, merge func(m *holdfastv1.Machine) *Error) subject {
	about := machineSubject(in.GetMachineId())
	// The rest is expensive and only needed for scoped callers.
	if in == nil || !scoped(t) {
		return about
	}
	old, exists := t.Machines.Get(in.GetMachineId())
	m := &holdfastv1.Machine{Spec: &holdfastv1.MachineSpec{}}
	if exists {
		m = proto.CloneOf(old)
	}
	if merge(m) != nil {
		return about // the command is refused for the same reason
	}
	fleet.NormalizeMachine(m)
	about.pools, about.secrets = []string{m.GetSpec().GetPool()}, sent(old, m)
	if ref := m.GetSpec().GetTargetClusterRef(); ref != "" && ref != old.GetSpec().GetTargetClusterRef() {
		about.secrets = append(about.secrets, clusterSecret+ref)
	}
	return about
}

// startSubject returns the machine of a run as the subject, and the secrets that the run's
// parameters would send somewhere. These are the credentials of a cluster that the caller
// names, because a host that joins gets an identity there, and the machine's own if it moves
// to another address. The machine's target cluster needs no further permission.
func startSubject(t *core.Tx, c *internalv1.StartRun) subject {
	about := machineSubject(c.GetMachineId())
	m, _ := t.Machines.Get(c.GetMachineId())
	if ref := c.GetParams()["cluster_ref"]; ref != "" && ref != m.GetSpec().GetTargetClusterRef() {
		about.secrets = append(about.secrets, clusterSecret+ref)
	}
	if to := c.GetParams()["new_ssh_endpoint"]; to != "" && to != m.GetSpec().GetSshEndpoint() {
		about.secrets = append(about.secrets, schema.Credentials(m)...)
	}
	return about
}

// waveSubject returns the machines of a new wave as the subject, and the secrets that the runs
// would send somewhere.
func waveSubject(t *core.Tx, c *internalv1.StartWave) subject {
	about := named("waves", c.GetWave().GetWaveId())
	for _, id := range c.GetMachineIds() {
		one := startSubject(t, runs.WaveStart(c.GetWave(), id))
		about.machines, about.secrets = append(about.machines, id), append(about.secrets, one.secrets...)
	}
	return about
}

// ofWave returns the machines of a wave as the subject. An unknown wave belongs to no caller, and
// the command reports that it is unknown.
func ofWave(t *core.Tx, c *internalv1.CancelWave) subject {
	about := named("waves", c.GetWaveId())
	for m := range t.WaveMembers.Ascend(schema.MemberPrefix(c.GetWaveId()), "") {
		if id := m.GetMachine().GetMachineId(); t.Machines.Has(id) { // a deleted one is in no pool
			about.machines = append(about.machines, id)
		}
	}
	if !t.Waves.Has(c.GetWaveId()) {
		about.machines = []string{""}
	}
	return about
}

// sent returns the secrets that a change of a machine would send somewhere else: those that
// it newly refers to, and all of them if its provider or an endpoint changes. old is nil for
// a new machine.
func sent(old, m *holdfastv1.Machine) []string {
	if old == nil || fleet.MovesHardware(old, m) {
		return schema.Credentials(m)
	}
	var names []string
	for _, ref := range [][2]string{
		{old.GetSpec().GetBmcCredentialsRef(), m.GetSpec().GetBmcCredentialsRef()},
		{old.GetSpec().GetSshCredentialsRef(), m.GetSpec().GetSshCredentialsRef()},
	} {
		if was, is := ref[0], ref[1]; is != "" && is != was && !slices.Contains(names, is) {
			names = append(names, is)
		}
	}
	return names
}

// providerSubject returns the pool of a provider as the subject: a manager may register
// providers of its own pool, and may not replace others.
func providerSubject(t *core.Tx, in *holdfastv1.PlatformProvider) subject {
	about := named("providers", in.GetProviderId())
	old, exists := t.Providers.Get(in.GetProviderId())
	if exists && old.GetPoolId() == "" {
		return about // an operator's
	}
	for _, pool := range []string{old.GetPoolId(), in.GetPoolId()} {
		if pool != "" {
			about.pools = append(about.pools, pool)
		}
	}
	return about
}

// nodeID returns the id of the machine that a node's id refers to, which may be a machine id or a
// MAC address. It returns an unknown id as it is.
func nodeID(t *core.Tx, id string) string {
	if m, ok := fleet.Node(t.State, id); ok {
		return m.GetMachineId()
	}
	return id
}
