package fsm

import (
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/fsm/internal/access"
	"github.com/holdfast-metal/holdfast/fsm/internal/core"
	"github.com/holdfast-metal/holdfast/fsm/internal/fleet"
	"github.com/holdfast-metal/holdfast/fsm/internal/lex"
	"github.com/holdfast-metal/holdfast/fsm/internal/runs"
	"github.com/holdfast-metal/holdfast/fsm/internal/schema"
	"github.com/holdfast-metal/holdfast/fsm/internal/waves"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// runSubject returns the machine of a run as the subject, and the pool that the run belongs to. An
// unknown run belongs to no caller, and the command reports that it is unknown.
func runSubject(t *core.Tx, id string) subject {
	about := subject{resource: "runs/" + lex.Ident(id), machines: []string{""}, absent: runs.NotFound, id: id}
	if run, ok := t.Runs.Get(id); ok {
		about.resource = "machines/" + run.GetMachineId() + "/runs/" + run.GetRunId()
		about.machines, about.owners = []string{run.GetMachineId()}, []string{run.GetPool()}
		if !t.Machines.Has(run.GetMachineId()) { // a deleted one is in no pool
			about.owners = []string{""}
		}
	}
	return about
}

// newMachine returns the subject of a command that finds a machine or makes it in a pool.
func newMachine(t *core.Tx, id, pool string) subject {
	about := machineSubject(id)
	about.absent = idTaken
	if pool != "" || !t.Machines.Has(id) {
		about.pools = []string{pool}
	}
	return about
}

// notYours returns the answer to an agent or a manager about a record of another pool. Its API has
// no status for a record that does not exist.
func notYours(kind string) func(id string) *Error {
	return func(id string) *Error {
		return outOfScope("%s %q cannot be used with this token: use another id", kind, id)
	}
}

// idTaken returns the answer to a caller that registers the id of a machine that it may not see.
func idTaken(id string) *Error {
	err := fleet.MachineNotFound(id)
	err.Message += " in your pools, and the id cannot be used: choose another one"
	return err
}

// inventorySubject returns the subject of a command that replaces or merges a machine's spec.
// It includes the pool before and after.
func inventorySubject(t *core.Tx, in *holdfastv1.Machine, merge func(m *holdfastv1.Machine) *Error) subject {
	about := machineSubject(in.GetMachineId())
	// The rest is expensive and only needed for scoped callers.
	if in == nil || !access.Scoped(t) {
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
	// A machine without a target joins the default cluster.
	ref, was := runs.ClusterRef(m, "", nil), runs.ClusterRef(old, "", nil)
	if ref != was && (m.GetSpec().GetTargetClusterRef() != "" || t.Secrets.Has(access.ClusterSecret+ref)) {
		about.secrets = append(about.secrets, access.ClusterSecret+ref)
	}
	return about
}

// startSubject returns the machine of a run as the subject, and the secrets that the run would send
// somewhere. These are the credentials of each cluster that its steps use, because a host that
// joins gets an identity there and a drain evicts its pods, and the machine's own if it moves to
// another address. The machine's target cluster needs no further permission.
func startSubject(t *core.Tx, c *internalv1.StartRun) subject {
	about := machineSubject(c.GetMachineId())
	if !access.Scoped(t) {
		return about
	}
	m, ok := t.Machines.Get(c.GetMachineId())
	if !ok {
		return about
	}
	plan, _ := t.Plans.Get(runs.PlanID(c))
	about.secrets = clusterSecrets(runs.Clusters(t.State, m, plan, c.GetParams()))
	if to := c.GetParams()["new_ssh_endpoint"]; to != "" && to != m.GetSpec().GetSshEndpoint() {
		about.secrets = append(about.secrets, schema.Credentials(m)...)
	}
	return about
}

// clusterSecrets returns the names of the secrets with the credentials of clusters.
func clusterSecrets(refs []string) []string {
	for i, ref := range refs {
		refs[i] = access.ClusterSecret + ref
	}
	return refs
}

// workflowSecrets returns the credentials of the clusters that a machine's workflow would use.
func workflowSecrets(t *core.Tx, machine, workflow string) []string {
	m, ok := t.Machines.Get(machine)
	if !ok || !access.Scoped(t) {
		return nil
	}
	plan, _ := t.Plans.Get(workflow)
	return clusterSecrets(runs.Clusters(t.State, m, plan, nil))
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
	about.absent, about.id = waves.NotFound, c.GetWaveId()
	for m := range t.WaveMembers.Ascend(schema.MemberPrefix(c.GetWaveId()), "") {
		if id := m.GetMachine().GetMachineId(); t.Machines.Has(id) { // a deleted one is in no pool
			about.machines, about.owners = append(about.machines, id), append(about.owners, m.GetPool())
		}
	}
	if len(about.machines) == 0 {
		about.owners = []string{""}
	}
	if !t.Waves.Has(c.GetWaveId()) {
		about.machines, about.owners = []string{""}, nil
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
	about.absent, about.id = notYours("provider"), in.GetProviderId()
	old, exists := t.Providers.Get(in.GetProviderId())
	if exists && old.GetPoolId() == "" {
		return about // an operator's
	}
	if exists {
		about.owners = []string{old.GetPoolId()}
	}
	if in.GetPoolId() != "" {
		about.pools = []string{in.GetPoolId()}
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
