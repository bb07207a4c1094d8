package registry

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/server/httpjson"
	"github.com/holdfast-metal/holdfast/server/internal/edge"
	"github.com/holdfast-metal/holdfast/server/internal/request"
)

// maxName is the maximum length of versions and names in heartbeats, in bytes.
const maxName = 256

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
		m.CpuUtilizationPct = min(max(httpjson.Finite(m.GetCpuUtilizationPct()), 0), 100)
		m.MemoryUtilizationPct = min(max(httpjson.Finite(m.GetMemoryUtilizationPct()), 0), 100)
		m.TotalCpuAvailable = max(m.GetTotalCpuAvailable(), 0)
		m.TotalMemoryAvailable = max(m.GetTotalMemoryAvailable(), 0)
		m.FreeGpuCount = max(m.GetFreeGpuCount(), 0)
	}
	if err := s.ownPoolsMachine(ctx, id); err != nil {
		return nil, otherOwner(err, r)
	}
	a, err := s.renew(ctx, internalv1.LeaseRef_MACHINE, id, &internalv1.Renewal{
		AgentVersion: clip(r.GetAgentVersion(), maxName),
		Metrics:      m,
		PoolName:     clip(r.GetPoolName(), maxName),
		ProviderName: clip(r.GetProviderName(), maxName),
	})
	if err != nil {
		return nil, otherOwner(err, r)
	}
	return &holdfastv1.KeepMachineAliveResponse{
		MachineId:       id,
		State:           holdfastv1.Agent_READY,
		PoolName:        a.GetPoolName(),
		LastKeepalive:   a.GetAt(),
		TtlSeconds:      seconds(a),
		AgentVersion:    r.GetAgentVersion(),
		NextKeepaliveMs: a.GetIntervalMs(),
	}, nil
}

// otherOwner returns the error of a keepalive. A machine is known by its id, pool and provider, so
// one that is not found may be registered with others.
func otherOwner(err error, r *holdfastv1.KeepMachineAliveRequest) error {
	e, ok := errors.AsType[*fsm.Error](err)
	if !ok || e.Reason != "MACHINE_NOT_FOUND" || r.GetPoolName() == "" && r.GetProviderName() == "" {
		return err
	}
	named := *e
	named.Message = fmt.Sprintf("machine %q of pool %q and provider %q not found: register it, or correct these names",
		clip(r.GetMachineId(), maxName), clip(r.GetPoolName(), maxName), clip(r.GetProviderName(), maxName))
	return &named
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
		g.TemperatureCelsius = thermometer(g.TemperatureCelsius)
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
	return &holdfastv1.HeartbeatPoolResponse{
		Status: "healthy", NextHeartbeatMs: a.GetIntervalMs(), TtlSeconds: seconds(a),
	}, nil
}

// seconds returns how long a renewed lease lasts.
func seconds(a *internalv1.RenewalAnswer) int64 { return a.GetTtlMs() / time.Second.Milliseconds() }

// thermometer returns the temperature of a GPU in °C, or nil if it is none that a GPU can have.
func thermometer(celsius *float64) *float64 {
	const lowest, highest = -273.15, 1000
	if celsius = httpjson.Known(celsius); celsius != nil && (*celsius < lowest || *celsius > highest) {
		return nil
	}
	return celsius
}

// PingService renews the lease of a service. A deregistered service stays deregistered.
func (s *Heartbeats) PingService(
	ctx context.Context, r *holdfastv1.PingServiceRequest,
) (*holdfastv1.PingServiceResponse, error) {
	if err := request.Required("id", r.GetId()); err != nil {
		return nil, err
	}
	renewal := &internalv1.Renewal{State: request.WithoutUnknown(r.GetState())}
	a, err := s.renew(ctx, internalv1.LeaseRef_SERVICE, serviceID(r.GetId()), renewal)
	if err != nil {
		return nil, err
	}
	return &holdfastv1.PingServiceResponse{NextPingMs: a.GetIntervalMs(), TtlSeconds: seconds(a)}, nil
}
