package registry

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/cluster/call"
	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/internal/secrets"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/server/auth"
	"github.com/holdfast-metal/holdfast/server/internal/access"
	"github.com/holdfast-metal/holdfast/server/internal/edge"
	"github.com/holdfast-metal/holdfast/server/internal/page"
	"github.com/holdfast-metal/holdfast/server/internal/request"
	"github.com/holdfast-metal/holdfast/server/internal/scope"
)

// Agents implements AgentService, which machines call to register themselves.
type Agents struct {
	holdfastv1.UnimplementedAgentServiceServer
	*edge.Peer
	enrollLimit uint32
}

// NewAgents returns the service of a peer. enrollLimit is the maximum number of machines of a pool
// that agents have created with a shared token and that no operator has approved; 0: no limit.
func NewAgents(peer *edge.Peer, enrollLimit uint32) *Agents {
	return &Agents{Peer: peer, enrollLimit: enrollLimit}
}

// CreateAgentMachine creates a machine for an agent that will register later. It returns
// the agent's token, which is never shown again.
func (s *Agents) CreateAgentMachine(
	ctx context.Context, r *holdfastv1.CreateAgentMachineRequest,
) (*holdfastv1.CreateAgentMachineResponse, error) {
	if err := request.Required("pool", r.GetPool()); err != nil {
		return nil, err
	}
	if ttl := r.GetTtlSeconds(); ttl < 0 || ttl > access.MaxTokenTTL {
		return nil, request.Invalid("ttl_seconds", fmt.Sprintf("%d is not 0 (never expires) to %d", ttl, access.MaxTokenTTL))
	}
	id, generate := r.GetMachineId(), r.GetMachineId() == ""
	return edge.RetryAborted(func() (*holdfastv1.CreateAgentMachineResponse, error) {
		if generate {
			id = edge.RandomHex(4)
		}
		secret, hash := secrets.TokenOf(call.Secret(ctx, "holdfast token", secrets.TokenBytes))
		tok := &holdfastv1.Token{TokenId: "tok-" + hex.EncodeToString(hash[:6]), Name: "agent-" + id}
		if ttl := r.GetTtlSeconds(); ttl > 0 {
			tok.ExpiresAt = timestamppb.New(s.Time().Add(time.Duration(ttl) * time.Second).Truncate(time.Second))
		}
		c := auth.Command(ctx)
		c.Op = &internalv1.Command_CreateAgentMachine{CreateAgentMachine: &internalv1.CreateAgentMachine{
			MachineId:    id,
			GeneratedId:  generate,
			Pool:         r.GetPool(),
			ProviderName: r.GetProviderName(),
			PendingTtlMs: fsm.LifetimeOf(internalv1.LeaseRef_PENDING_MACHINE).TTL.Milliseconds(),
			Token:        &internalv1.StoredToken{Token: tok, Sha256: hash},
		}}
		m, err := edge.Apply[*holdfastv1.Machine](ctx, s.Cluster, c)
		if err != nil {
			return nil, err
		}
		return &holdfastv1.CreateAgentMachineResponse{Machine: m, Token: secret, TokenId: tok.GetTokenId()}, nil
	})
}

// RegisterAgent registers a machine; its first heartbeat makes it ready.
func (s *Agents) RegisterAgent(
	ctx context.Context, r *holdfastv1.RegisterAgentRequest,
) (*holdfastv1.Machine, error) {
	for _, f := range []struct{ name, value string }{{"machine_id", r.GetMachineId()}, {"pool_name", r.GetPoolName()}} {
		if err := request.Required(f.name, f.value); err != nil {
			return nil, err
		}
	}
	sum := r.GetTokenSha256()
	if n := len(sum); n != 0 && n != sha256.Size {
		return nil, request.Invalid("token_sha256", fmt.Sprintf("has %d bytes, not %d", n, sha256.Size))
	}
	in := proto.CloneOf(request.WithoutUnknown(r))
	in.TokenSha256 = nil
	return edge.RetryAborted(func() (*holdfastv1.Machine, error) {
		c := auth.Command(ctx)
		op := &internalv1.RegisterAgent{
			Agent: in, TtlMs: fsm.LifetimeOf(internalv1.LeaseRef_MACHINE).TTL.Milliseconds(), EnrollLimit: s.enrollLimit,
		}
		if len(sum) > 0 {
			op.Token = &internalv1.StoredToken{Token: &holdfastv1.Token{TokenId: "tok-" + edge.RandomHex(6)}, Sha256: sum}
		}
		c.Op = &internalv1.Command_RegisterAgent{RegisterAgent: op}
		return edge.Apply[*holdfastv1.Machine](ctx, s.Cluster, c)
	})
}

// mayWork reports whether workloads may be placed on a machine: its agent is ready, and neither its
// phase nor a run takes it out of service. Schedulers know no other word for it than "ready".
func mayWork(m *holdfastv1.Machine) bool {
	s := m.GetStatus()
	if s.GetAgentState() != holdfastv1.Agent_READY || s.GetPhase() == holdfastv1.MachineStatus_PROVISIONING {
		return false
	}
	switch s.GetEffectiveState() {
	case holdfastv1.EffectiveState_READY, holdfastv1.EffectiveState_IN_SERVICE,
		holdfastv1.EffectiveState_FACTORY_READY:
		return true
	}
	return false
}

// ListAgentMachines lists the machines that are ready for work, by id. A machine's agent sees only
// its own machine.
func (s *Agents) ListAgentMachines(
	ctx context.Context, r *holdfastv1.ListAgentMachinesRequest,
) (*holdfastv1.ListAgentMachinesResponse, error) {
	p, v, err := page.Open(ctx, s.Cluster.View, r, "agent machines", r.GetPoolName(), r.GetProviderName())
	if err != nil {
		return nil, err
	}
	who := auth.From(ctx)
	rows := page.Keyed(v.Machines(p.After), (*holdfastv1.Machine).GetMachineId)
	switch own := who.GetMachineId(); {
	case own != "":
		rows = page.Single(p, own, v.Machine)
	case r.GetPoolName() != "":
		rows = page.Keyed(v.PoolMachines(r.GetPoolName(), p.After), (*holdfastv1.Machine).GetMachineId)
	}
	resp := &holdfastv1.ListAgentMachinesResponse{}
	resp.Machines, resp.NextPageToken, err = page.Collect(ctx, p, rows, func(m *holdfastv1.Machine) bool {
		return mayWork(m) && scope.Visible(who, m) &&
			(r.GetPoolName() == "" || m.GetSpec().GetPool() == r.GetPoolName()) &&
			(r.GetProviderName() == "" || m.GetAgent().GetProviderName() == r.GetProviderName())
	})
	for _, m := range resp.GetMachines() {
		id := m.GetSpec().GetPool()
		if _, known := resp.GetGpuTypes()[id]; known || id == "" {
			continue
		}
		if pool, ok := v.Pool(id); ok && pool.GetGpuType() != "" {
			if resp.GpuTypes == nil {
				resp.GpuTypes = map[string]string{}
			}
			resp.GpuTypes[id] = pool.GetGpuType()
		}
	}
	return resp, err
}
