package server

import (
	"context"
	"errors"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/cluster"
	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/server/auth"
	"github.com/holdfast-metal/holdfast/server/httpjson"
)

// Leases brings heartbeats to the leader (lease.Gateway does). An answer means that the leader has
// it; the error is a
// *cluster.OutcomeError, and another try is safe.
type Leases interface {
	Renew(ctx context.Context, r *internalv1.Renewal) (*internalv1.RenewalAnswer, error)
}

var errNoLeases = errors.New("this peer takes no heartbeats: ask another one")

// heartbeatService is served by the peer that takes the call: heartbeats go to the leader many at
// once (docs/decisions/0012-leases-have-a-clock-of-their-own.md).
type heartbeatService struct {
	holdfastv1.UnimplementedHeartbeatServiceServer
	*Server
}

// KeepMachineAlive takes a keepalive (machine registration §Keepalive API).
func (s *heartbeatService) KeepMachineAlive(ctx context.Context, r *holdfastv1.KeepMachineAliveRequest) (*holdfastv1.KeepMachineAliveResponse, error) {
	known(r.GetMetrics())
	return s.keepMachineAlive(ctx, r)
}

// keepMachineAlive is KeepMachineAlive for a message without fields that this build does not know.
func (s *heartbeatService) keepMachineAlive(ctx context.Context, r *holdfastv1.KeepMachineAliveRequest) (*holdfastv1.KeepMachineAliveResponse, error) {
	id := r.GetMachineId()
	if err := required("machine_id", id); err != nil {
		return nil, err
	}
	m := r.GetMetrics()
	if m != nil { // a sensor that tells no number must not cost the machine its heartbeat
		m.CpuUtilizationPct, m.MemoryUtilizationPct = httpjson.Finite(m.GetCpuUtilizationPct()), httpjson.Finite(m.GetMemoryUtilizationPct())
	}
	if err := s.ownPoolsMachine(ctx, id); err != nil {
		return nil, err
	}
	a, err := s.beat(ctx, internalv1.LeaseRef_MACHINE, id, &internalv1.Renewal{
		AgentVersion: clip(r.GetAgentVersion(), maxName), Metrics: m, PoolName: clip(r.GetPoolName(), maxName), ProviderName: clip(r.GetProviderName(), maxName),
	})
	if err != nil {
		return nil, err
	}
	pool := a.GetPoolName()
	if pool == "" { // an older leader leaves it out
		m, _ := s.state.View().Machine(id)
		pool = m.GetSpec().GetPool()
	}
	return &holdfastv1.KeepMachineAliveResponse{
		MachineId: id, State: holdfastv1.Agent_READY, PoolName: pool, LastKeepalive: a.GetAt(),
		TtlSeconds: a.GetTtlMs() / time.Second.Milliseconds(), AgentVersion: r.GetAgentVersion(), NextKeepaliveMs: a.GetIntervalMs(),
	}, nil
}

// ownPoolsMachine keeps a pool's agents from speaking for the machines of other pools. An agent
// with a machine of its own was held to that before.
func (s *heartbeatService) ownPoolsMachine(ctx context.Context, id string) error {
	who := auth.From(ctx)
	if !auth.Scoped(who) || who.GetMachineId() != "" {
		return nil
	}
	v := s.state.View()
	if v.Enrolled(id) {
		return fsm.MachineEnrolled(id)
	}
	for _, pool := range who.GetPools() { // nearly always: what follows is for the others
		if v.InPool(id, pool) && auth.InScope(who, pool) {
			return nil
		}
	}
	m, ok := v.Machine(id)
	if !ok { // it may have been registered a moment ago, on another peer
		fresh, err := s.node.View(cluster.WithConsistency(ctx, cluster.Consistency{}))
		if err != nil {
			return err
		}
		m, ok = fresh.Machine(id)
	}
	if ok && !auth.InScope(who, m.GetSpec().GetPool()) {
		return &fsm.Error{Code: fsm.PermissionDenied, Reason: "OUT_OF_SCOPE", Message: "machine " + quote(id) + " is not in a pool of " + who.GetPrincipal(),
			Meta: map[string]string{"machine_id": id}}
	}
	return nil
}

// HeartbeatPool takes a pool manager's heartbeat (POOLREG-18020).
func (s *heartbeatService) HeartbeatPool(ctx context.Context, r *holdfastv1.HeartbeatPoolRequest) (*holdfastv1.HeartbeatPoolResponse, error) {
	if err := required("pool_id", r.GetPoolId()); err != nil {
		return nil, err
	}
	report := &internalv1.PoolReport{
		WorkersTotal: r.GetWorkersTotal(), WorkersReady: r.GetWorkersReady(), WorkersBusy: r.GetWorkersBusy(), UptimeSeconds: r.GetUptimeSeconds(),
	}
	for _, g := range r.GetGpus() { // a broken thermometer must not cost the pool its heartbeat; memory decides placement
		g.TemperatureCelsius = httpjson.Finite(g.GetTemperatureCelsius())
		report.Gpus = append(report.Gpus, known(g))
	}
	if err := finiteGpus("gpus", report.GetGpus()); err != nil {
		return nil, err
	}
	if err := violations(fsm.CheckPoolReport(report)); err != nil {
		return nil, err
	}
	a, err := s.beat(ctx, internalv1.LeaseRef_POOL, r.GetPoolId(), &internalv1.Renewal{Pool: report})
	if err != nil {
		return nil, err
	}
	return &holdfastv1.HeartbeatPoolResponse{Status: "healthy", NextHeartbeatMs: a.GetIntervalMs()}, nil
}

// PingService takes a service's ping. One that was deregistered may go on pinging: it stays out.
func (s *heartbeatService) PingService(ctx context.Context, r *holdfastv1.PingServiceRequest) (*holdfastv1.PingServiceResponse, error) {
	if err := required("id", r.GetId()); err != nil {
		return nil, err
	}
	if _, err := s.beat(ctx, internalv1.LeaseRef_SERVICE, r.GetId(), &internalv1.Renewal{State: known(r.GetState())}); err != nil {
		return nil, err
	}
	return &holdfastv1.PingServiceResponse{}, nil
}

// beat brings a heartbeat to the leader and words the answer.
func (s *heartbeatService) beat(ctx context.Context, kind internalv1.LeaseRef_Kind, id string, r *internalv1.Renewal) (*internalv1.RenewalAnswer, error) {
	r.Lease = &internalv1.LeaseRef{Kind: kind, Id: id}
	if s.cfg.Leases == nil {
		return nil, &cluster.OutcomeError{Outcome: cluster.NotApplied, Err: errNoLeases}
	}
	a, err := s.cfg.Leases.Renew(ctx, r)
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
		return nil, &fsm.Error{Code: fsm.NotFound, Reason: "LEASE_EXPIRED", Message: what + " " + quote(id) + " was not heard of for too long and has expired: register it again",
			Meta: map[string]string{what + "_id": id}}
	}
	return nil, notFound(reason, what, id)
}

// known drops what this build does not know of a client's message: it goes into a command.
func known[M proto.Message](m M) M {
	dropUnknown(m.ProtoReflect())
	return m
}

// maxName bounds versions and names in heartbeats, in bytes.
const maxName = 256
