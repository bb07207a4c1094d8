package fsmtest

import (
	"crypto/sha256"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

const (
	serviceIDs = 3
	leaseTTL   = 30_000 // milliseconds; short, so that leases expire
)

// fleetGenerator makes the commands about leases, agents, nodes, pools, providers and services.
type fleetGenerator struct{ draw }

func (g fleetGenerator) choices() []choice {
	return []choice{
		{5, "checkpoint leases", g.checkpoint},
		{4, "expire leases", g.expire},
		{2, "create agent machine", g.createAgentMachine},
		{4, "register agent", g.registerAgent},
		{2, "create node", g.createNode},
		{2, "update node", g.updateNode},
		{6, "transition node", g.transitionNode},
		{10, "report node", g.reportNode},
		{4, "create pool", g.createPool},
		{1, "delete pool", g.deletePool},
		{2, "register pool", g.registerPool},
		{1, "deregister pool", g.deregisterPool},
		{1, "register provider", g.registerProvider},
		{1, "sweep pools", g.sweepPools},
		{3, "register service", g.registerService},
		{2, "update service", g.updateService},
		{1, "deregister service", g.deregisterService},
	}
}

// someLease returns a lease of a state, or now and then one that it does not have.
func (g fleetGenerator) someLease(v *fsm.View) *internalv1.LeaseRef {
	if all := slices.Collect(v.Leases()); len(all) > 0 && !g.rarely("no such lease") {
		return oneOf(g.draw, "lease", all).GetRef()
	}
	kinds := []internalv1.LeaseRef_Kind{
		internalv1.LeaseRef_MACHINE, internalv1.LeaseRef_POOL, internalv1.LeaseRef_SERVICE,
		internalv1.LeaseRef_PENDING_MACHINE,
	}
	return &internalv1.LeaseRef{
		Kind:       oneOf(g.draw, "kind of lease", kinds),
		Id:         g.id("m", machineIDs),
		Generation: uint64(g.Choose("generation", 2)),
	}
}

// tick returns a value of the lease clock: a little later, or sometimes much.
func (g fleetGenerator) tick(v *fsm.View) int64 {
	step := int64(g.Choose("seconds", 20)) * 1000
	if g.rarely("a long while") {
		step += leaseTTL
	}
	return v.LeaseClock() + step
}

func (g fleetGenerator) checkpoint(v *fsm.View) proto.Message {
	c := &internalv1.CheckpointLeases{ClockMs: g.tick(v)}
	for range g.Choose("heartbeats", 4) {
		ref := proto.CloneOf(g.someLease(v))
		if ref.GetKind() == internalv1.LeaseRef_PENDING_MACHINE && g.Choose("as a machine", 3) > 0 {
			ref.Kind, ref.Generation = internalv1.LeaseRef_MACHINE, 0
		}
		if g.Choose("the current one", 3) == 0 {
			ref.Generation = 0
		}
		age := int64(g.Choose("age", 40)) * 1000
		s := &internalv1.SeenLease{
			AgeMs:   age,
			SeenMs:  c.GetClockMs() - age,
			Renewal: &internalv1.Renewal{Lease: ref, AgentVersion: g.id("v", 2)},
		}
		switch ref.GetKind() {
		case internalv1.LeaseRef_MACHINE:
			s.Renewal.Metrics = &holdfastv1.AgentMetrics{FreeGpuCount: int32(g.Choose("free", 4))}
		case internalv1.LeaseRef_POOL:
			s.Renewal.Pool = &internalv1.PoolReport{Gpus: g.gpus(), WorkersTotal: 1}
		case internalv1.LeaseRef_SERVICE:
			if g.Choose("with a state", 2) == 0 {
				s.Renewal.State = &holdfastv1.ServiceState{Healthy: true, Reason: g.id("reason", 2)}
			}
		}
		c.Leases = append(c.Leases, s)
	}
	return c
}

func (g fleetGenerator) expire(v *fsm.View) proto.Message {
	c := &internalv1.ExpireLeases{ClockMs: g.tick(v)}
	if g.Choose("in good time", 2) == 0 {
		c.ClockMs += leaseTTL
	}
	if g.rarely("after hours") {
		c.ClockMs += 3 * 3600_000
	}
	for range 1 + g.Choose("losses", 4) {
		c.Leases = append(c.Leases, g.someLease(v))
	}
	return c
}

func (g fleetGenerator) createAgentMachine(*fsm.View) proto.Message {
	c := &internalv1.CreateAgentMachine{
		MachineId:    g.id("m", machineIDs),
		Pool:         g.id("pool", poolIDs),
		PendingTtlMs: leaseTTL,
		GeneratedId:  g.rarely("generated id"),
	}
	if g.rarely("no token") {
		return c
	}
	id := g.id("agent-token", tokenIDs)
	sum := sha256.Sum256([]byte(id + c.GetMachineId()))
	c.Token = &internalv1.StoredToken{Token: &holdfastv1.Token{TokenId: id, Name: c.GetMachineId()}, Sha256: sum[:]}
	return c
}

func (g fleetGenerator) registerAgent(v *fsm.View) proto.Message {
	in := &holdfastv1.RegisterAgentRequest{
		MachineId: g.id("m", machineIDs),
		PoolName:  g.id("pool", poolIDs),
		Hostname:  g.id("host", 2),
		GpuCount:  1,
	}
	if m, ok := v.Machine(in.GetMachineId()); ok && m.GetSpec().GetPool() != "" && !g.rarely("another pool") {
		in.PoolName = m.GetSpec().GetPool()
	}
	if g.Choose("with hardware", 2) == 0 {
		in.Hardware = &holdfastv1.NodeRecord{Vendor: g.id("vendor", 2), SerialNumber: g.id("serial", macs)}
		in.MacAddress = g.mac()
	}
	c := &internalv1.RegisterAgent{Agent: in, TtlMs: leaseTTL}
	if g.Choose("enrolls", 3) == 0 {
		id := g.id("own-token", tokenIDs)
		sum := sha256.Sum256([]byte(id + in.GetMachineId()))
		c.Token = &internalv1.StoredToken{Token: &holdfastv1.Token{TokenId: id}, Sha256: sum[:]}
	}
	if g.Choose("limited", 3) == 0 {
		c.EnrollLimit = 2
	}
	return c
}

func (g fleetGenerator) mac() string {
	return fmt.Sprintf("02:00:00:00:00:0%d", g.Choose("mac", macs))
}

func (g fleetGenerator) nodeRecord() *holdfastv1.NodeRecord {
	n := &holdfastv1.NodeRecord{Hostname: g.id("host", 3), Arch: "x86_64"}
	if g.Choose("with a workflow", 2) == 0 {
		n.WorkflowId = g.id("plan", planIDs)
	}
	if g.Choose("with a tag", 2) == 0 {
		n.Tags = []string{g.id("tag", 3)}
	}
	return n
}

func (g fleetGenerator) createNode(*fsm.View) proto.Message {
	return &internalv1.CreateNode{MachineId: g.id("m", machineIDs), MacAddress: g.mac(), Node: g.nodeRecord()}
}

// someNode returns the id of a machine, or one of its MAC addresses.
func (g fleetGenerator) someNode(v *fsm.View) string {
	m := oneOf(g.draw, "node", slices.Collect(v.Machines("")))
	if m == nil || g.rarely("any node") {
		return g.id("m", machineIDs)
	}
	if a := m.GetSpec().GetMacAddresses(); len(a) > 0 && g.Choose("by its MAC", 2) == 0 {
		return a[0]
	}
	return m.GetMachineId()
}

func (g fleetGenerator) updateNode(v *fsm.View) proto.Message {
	paths := [][]string{
		nil, {"hostname"}, {"workflow_id", "group_id"}, {"tags.add"}, {"tags.remove"}, {"install_attempts"},
	}
	return &internalv1.UpdateNode{Id: g.someNode(v), Node: g.nodeRecord(), Paths: oneOf(g.draw, "paths", paths)}
}

// transitionNode mostly makes transitions that the table allows.
func (g fleetGenerator) transitionNode(v *fsm.View) proto.Message {
	c := &internalv1.TransitionNode{
		Id:      g.someNode(v),
		Comment: g.id("comment", 2),
		Force:   g.Choose("force", 2) == 0,
		RunId:   g.id("run", runIDs),
	}
	next := map[holdfastv1.Node_State][]holdfastv1.Node_State{
		holdfastv1.Node_DISCOVERED: {2}, holdfastv1.Node_PENDING: {3}, holdfastv1.Node_INSTALLING: {4, 5},
		holdfastv1.Node_INSTALL_FAILED: {2},
		holdfastv1.Node_INSTALLED:      {6}, holdfastv1.Node_ACTIVE: {7, 8, 9}, holdfastv1.Node_REPROVISION: {2},
		holdfastv1.Node_DEPROVISIONING: {8}, holdfastv1.Node_MIGRATING: {6},
	}
	m, _ := v.NodeByID(c.GetId())
	c.State = oneOf(g.draw, "next", next[m.GetStatus().GetNodeState()])
	if c.GetState() == 0 || g.rarely("any state") {
		c.State = holdfastv1.Node_State(1 + g.Choose("state", 10))
	}
	return c
}

func (g fleetGenerator) reportNode(v *fsm.View) proto.Message {
	mac := g.mac()
	if m := oneOf(g.draw, "node", slices.Collect(v.Machines(""))); len(m.GetSpec().GetMacAddresses()) > 0 &&
		!g.rarely("any MAC") {
		mac = m.GetSpec().GetMacAddresses()[0]
	}
	r := &holdfastv1.ReportNodeRequest{MacAddress: mac, Facts: &holdfastv1.NodeRecord{IpAddress: g.id("10.0.0", 3)}}
	r.InstallationStatus = oneOf(g.draw, "status", []string{
		"started", "started", "progress", "complete", "failed", "failed", "failed", "", "dancing",
	})
	if r.GetInstallationStatus() == "progress" {
		r.HasProgress, r.InstallationProgress = true, int32(g.Choose("progress", 102))
	}
	if r.GetInstallationStatus() == "failed" {
		r.InstallationError = g.id("error", 2)
	}
	return &internalv1.ReportNode{
		Report:    r,
		RunId:     g.id("run", runIDs),
		MachineId: g.id("m", machineIDs),
		Discover:  g.Choose("discover", 3) == 0,
	}
}

func (g fleetGenerator) gpus() []*holdfastv1.Gpu {
	var gpus []*holdfastv1.Gpu
	for i := range g.Choose("gpus", 3) {
		gpus = append(gpus, &holdfastv1.Gpu{
			Id: int32(i), TotalVramGb: proto.Float64(24), AvailableVramGb: new(float64(g.Choose("free", 25))),
		})
	}
	return gpus
}

func (g fleetGenerator) createPool(*fsm.View) proto.Message {
	return &internalv1.CreatePool{Pool: &holdfastv1.Pool{PoolId: g.id("pool", poolIDs), GpuType: g.id("gpu", 2)}}
}

func (g fleetGenerator) deletePool(*fsm.View) proto.Message {
	if g.Choose("a provider instead", 3) == 0 {
		return &internalv1.DeleteProvider{ProviderId: g.id("provider", 2)}
	}
	return &internalv1.DeletePool{PoolId: g.id("pool", poolIDs)}
}

func (g fleetGenerator) registerPool(*fsm.View) proto.Message {
	return &internalv1.RegisterPool{
		TtlMs: leaseTTL,
		Pool:  &holdfastv1.Pool{PoolId: g.id("pool", poolIDs), Endpoint: "http://" + g.id("gpu", 2), Gpus: g.gpus()},
	}
}

func (g fleetGenerator) deregisterPool(*fsm.View) proto.Message {
	return &internalv1.DeregisterPool{PoolId: g.id("pool", poolIDs), Reason: g.id("reason", 2)}
}

func (g fleetGenerator) sweepPools(*fsm.View) proto.Message {
	return &internalv1.SweepPools{PoolIds: []string{g.id("pool", poolIDs), g.id("pool", poolIDs)}}
}

func (g fleetGenerator) registerProvider(*fsm.View) proto.Message {
	p := &holdfastv1.PlatformProvider{ProviderId: g.id("provider", 2), TotalGpus: 8}
	if g.Choose("of a pool", 2) == 0 {
		p.PoolId = g.id("pool", poolIDs)
	}
	return &internalv1.RegisterProvider{Provider: p}
}

func (g fleetGenerator) serviceID() string {
	return fmt.Sprintf("00000000-0000-4000-8000-00000000000%d", g.Choose("service", serviceIDs))
}

func (g fleetGenerator) registerService(*fsm.View) proto.Message {
	c := &internalv1.RegisterService{
		TtlMs:  leaseTTL,
		Target: &holdfastv1.ServiceTarget{ServiceName: g.id("tool", 2), Host: "10.0.0.1", Port: 9090},
	}
	if c.NewId = g.serviceID(); g.Choose("with its id", 2) == 0 {
		c.Target.Id = c.GetNewId()
	}
	return c
}

func (g fleetGenerator) updateService(*fsm.View) proto.Message {
	return &internalv1.UpdateServiceState{
		Id:    g.serviceID(),
		State: &holdfastv1.ServiceState{Healthy: g.Choose("healthy", 2) == 0, Reason: g.id("reason", 2)},
	}
}

func (g fleetGenerator) deregisterService(*fsm.View) proto.Message {
	return &internalv1.DeregisterService{Id: g.serviceID(), ByServer: g.Choose("by the server", 2) == 0}
}
