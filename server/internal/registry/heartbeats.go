package registry

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/holdfast-metal/holdfast/cluster"
	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/server/auth"
	"github.com/holdfast-metal/holdfast/server/httpjson"
	"github.com/holdfast-metal/holdfast/server/internal/edge"
	"github.com/holdfast-metal/holdfast/server/internal/request"
)

// Leases renews leases at the leader (lease.Gateway). An answer means that the leader has
// recorded the heartbeat. The error is a *cluster.OutcomeError; the call may always be
// retried.
type Leases interface {
	Renew(ctx context.Context, r *internalv1.Renewal) (*internalv1.RenewalAnswer, error)
}

var errNoLeases = errors.New("this peer accepts no heartbeats: use another one")

// Heartbeats implements HeartbeatService. Every peer serves it, and sends the heartbeats to
// the leader in batches (docs/decisions/0012-leases-have-a-clock-of-their-own.md).
type Heartbeats struct {
	holdfastv1.UnimplementedHeartbeatServiceServer
	*edge.Peer
	leases Leases
}

// NewHeartbeats returns the service of a peer. Without leases, heartbeats are UNAVAILABLE.
func NewHeartbeats(peer *edge.Peer, leases Leases) *Heartbeats {
	return &Heartbeats{Peer: peer, leases: leases}
}

// KeepMachineAlive renews the lease of a machine.
func (s *Heartbeats) KeepMachineAlive(
	ctx context.Context, r *holdfastv1.KeepMachineAliveRequest,
) (*holdfastv1.KeepMachineAliveResponse, error) {
	request.WithoutUnknown(r.GetMetrics())
	return s.KeepKnownAlive(ctx, r)
}

// KeepKnownAlive is KeepMachineAlive for a message that has no field unknown to this build.
func (s *Heartbeats) KeepKnownAlive(
	ctx context.Context, r *holdfastv1.KeepMachineAliveRequest,
) (*holdfastv1.KeepMachineAliveResponse, error) {
	id := r.GetMachineId()
	if err := request.Required("machine_id", id); err != nil {
		return nil, err
	}
	m := r.GetMetrics()
	if m != nil { // do not refuse a heartbeat because of a broken sensor
		m.CpuUtilizationPct = httpjson.Finite(m.GetCpuUtilizationPct())
		m.MemoryUtilizationPct = httpjson.Finite(m.GetMemoryUtilizationPct())
	}
	if err := s.ownPoolsMachine(ctx, id); err != nil {
		return nil, err
	}
	a, err := s.renew(ctx, internalv1.LeaseRef_MACHINE, id, &internalv1.Renewal{
		AgentVersion: clip(r.GetAgentVersion(), maxName),
		Metrics:      m,
		PoolName:     clip(r.GetPoolName(), maxName),
		ProviderName: clip(r.GetProviderName(), maxName),
	})
	if err != nil {
		return nil, err
	}
	pool := a.GetPoolName()
	if pool == "" { // the leader is of an older version
		m, _ := s.State.View().Machine(id)
		pool = m.GetSpec().GetPool()
	}
	return &holdfastv1.KeepMachineAliveResponse{
		MachineId:       id,
		State:           holdfastv1.Agent_READY,
		PoolName:        pool,
		LastKeepalive:   a.GetAt(),
		TtlSeconds:      a.GetTtlMs() / time.Second.Milliseconds(),
		AgentVersion:    r.GetAgentVersion(),
		NextKeepaliveMs: a.GetIntervalMs(),
	}, nil
}

// ownPoolsMachine returns an error if a pool's agent renews the lease of a machine in
// another pool. Agents of a single machine have been checked before.
func (s *Heartbeats) ownPoolsMachine(ctx context.Context, id string) error {
	who := auth.From(ctx)
	if !auth.Scoped(who) || who.GetMachineId() != "" {
		return nil
	}
	v := s.State.View()
	if v.Enrolled(id) {
		return fsm.MachineEnrolled(id)
	}
	for _, pool := range who.GetPools() { // the usual case; the rest handles all others
		if v.InPool(id, pool) && auth.InScope(who, pool) {
			return nil
		}
	}
	m, ok := v.Machine(id)
	if !ok { // another peer may have just registered it
		fresh, err := s.Node.View(cluster.WithConsistency(ctx, cluster.Consistency{}))
		if err != nil {
			return err
		}
		m, ok = fresh.Machine(id)
	}
	if ok && !auth.InScope(who, m.GetSpec().GetPool()) {
		return &fsm.Error{
			Code: fsm.PermissionDenied, Reason: "OUT_OF_SCOPE",
			Message: "machine " + strconv.Quote(id) + " is not in a pool of " + who.GetPrincipal(),
			Meta:    map[string]string{"machine_id": id},
		}
	}
	return nil
}

// HeartbeatPool renews the lease of a pool (POOLREG-18020).
func (s *Heartbeats) HeartbeatPool(
	ctx context.Context, r *holdfastv1.HeartbeatPoolRequest,
) (*holdfastv1.HeartbeatPoolResponse, error) {
	if err := request.Required("pool_id", r.GetPoolId()); err != nil {
		return nil, err
	}
	report := &internalv1.PoolReport{
		WorkersTotal:  r.GetWorkersTotal(),
		WorkersReady:  r.GetWorkersReady(),
		WorkersBusy:   r.GetWorkersBusy(),
		UptimeSeconds: r.GetUptimeSeconds(),
	}
	for _, g := range r.GetGpus() {
		// Do not refuse a heartbeat because of a broken thermometer. Memory sizes decide
		// about placement, so those must be finite.
		g.TemperatureCelsius = httpjson.Finite(g.GetTemperatureCelsius())
		report.Gpus = append(report.Gpus, request.WithoutUnknown(g))
	}
	if err := finiteGpus("gpus", report.GetGpus()); err != nil {
		return nil, err
	}
	if err := request.Violations(fsm.CheckPoolReport(report)); err != nil {
		return nil, err
	}
	a, err := s.renew(ctx, internalv1.LeaseRef_POOL, r.GetPoolId(), &internalv1.Renewal{Pool: report})
	if err != nil {
		return nil, err
	}
	return &holdfastv1.HeartbeatPoolResponse{Status: "healthy", NextHeartbeatMs: a.GetIntervalMs()}, nil
}

// PingService renews the lease of a service. A deregistered service stays deregistered.
func (s *Heartbeats) PingService(
	ctx context.Context, r *holdfastv1.PingServiceRequest,
) (*holdfastv1.PingServiceResponse, error) {
	if err := request.Required("id", r.GetId()); err != nil {
		return nil, err
	}
	renewal := &internalv1.Renewal{State: request.WithoutUnknown(r.GetState())}
	if _, err := s.renew(ctx, internalv1.LeaseRef_SERVICE, r.GetId(), renewal); err != nil {
		return nil, err
	}
	return &holdfastv1.PingServiceResponse{}, nil
}

// renew renews a lease at the leader, and returns its answer or an error.
func (s *Heartbeats) renew(
	ctx context.Context, kind internalv1.LeaseRef_Kind, id string, r *internalv1.Renewal,
) (*internalv1.RenewalAnswer, error) {
	r.Lease = &internalv1.LeaseRef{Kind: kind, Id: id}
	if s.leases == nil {
		return nil, &cluster.OutcomeError{Outcome: cluster.NotApplied, Err: errNoLeases}
	}
	a, err := s.leases.Renew(ctx, r)
	if err != nil {
		return nil, err
	}
	what, reason := "machine", "MACHINE_NOT_FOUND"
	switch kind {
	case internalv1.LeaseRef_POOL:
		what, reason = "pool", "POOL_NOT_FOUND"
	case internalv1.LeaseRef_SERVICE:
		what, reason = "service", "SERVICE_NOT_FOUND"
	}
	switch a.GetOutcome() {
	case internalv1.RenewalAnswer_RENEWED:
		return a, nil
	case internalv1.RenewalAnswer_EXPIRED:
		if kind == internalv1.LeaseRef_SERVICE {
			return a, nil
		}
		return nil, &fsm.Error{
			Code: fsm.NotFound, Reason: "LEASE_EXPIRED",
			Message: "the lease of " + what + " " + strconv.Quote(id) + " has expired without a heartbeat: register it again",
			Meta:    map[string]string{what + "_id": id},
		}
	}
	return nil, request.NotFound(reason, what, id)
}

// maxName is the maximum length of versions and names in heartbeats, in bytes.
const maxName = 256
