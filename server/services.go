package server

import (
	"google.golang.org/grpc"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/server/auth"
	"github.com/holdfast-metal/holdfast/server/internal/access"
	"github.com/holdfast-metal/holdfast/server/internal/console"
	"github.com/holdfast-metal/holdfast/server/internal/diagnose"
	"github.com/holdfast-metal/holdfast/server/internal/events"
	"github.com/holdfast-metal/holdfast/server/internal/fleet"
	"github.com/holdfast-metal/holdfast/server/internal/images"
	"github.com/holdfast-metal/holdfast/server/internal/installs"
	"github.com/holdfast-metal/holdfast/server/internal/operator"
	"github.com/holdfast-metal/holdfast/server/internal/plans"
	"github.com/holdfast-metal/holdfast/server/internal/registry"
	"github.com/holdfast-metal/holdfast/server/internal/waves"
)

// Register adds the services of the public API, gRPC health and, if the registrar
// supports it, reflection. The gRPC server must have GRPCOptions, whose interceptors
// convert errors to statuses.
func (s *Server) Register(r grpc.ServiceRegistrar) {
	machines := fleet.NewMachines(s.peer, s.providers)
	holdfastv1.RegisterMachineServiceServer(r, machines)
	holdfastv1.RegisterPlanServiceServer(r, plans.New(s.peer, plans.Config{
		Providers: s.providers, ChooseDisk: s.cfg.ChooseDisk, Files: s.cfg.Files, Starts: s.starts,
	}))
	holdfastv1.RegisterRunServiceServer(r, s.runs)
	holdfastv1.RegisterWaveServiceServer(r, waves.New(s.peer, machines, s.starts))
	holdfastv1.RegisterConsoleServiceServer(r, console.New(s.peer, console.Config{
		PeerID: s.cfg.PeerID, Leader: s.node.Leader, Consoles: s.cfg.Consoles, Peers: s.cfg.Peers,
		Record: s.cfg.RecordConsoles, Keep: s.cfg.ConsoleKeep,
	}))
	holdfastv1.RegisterClusterServiceServer(r, diagnose.NewCluster(s.peer, diagnose.Config{
		PeerID: s.cfg.PeerID, Version: s.cfg.Version, Settings: s.cfg.Settings, Gatherer: s.cfg.Gatherer,
		Ready: s.ready, Note: s.cfg.Note, Issuers: issuers(s.cfg.Gate),
	}, s.node))
	holdfastv1.RegisterOperatorServiceServer(r, operator.New(s.peer, operator.Config{
		PeerID: s.cfg.PeerID, Version: s.cfg.Version, Admin: s.cfg.Admin, Peers: s.cfg.Peers, Keys: s.cfg.Keys,
		Notes: holdfastv1.NewOperatorServiceClient(s.local), Status: s.node.Status,
	}))
	holdfastv1.RegisterAccessServiceServer(r, access.NewTokens(s.peer))
	holdfastv1.RegisterSessionServiceServer(r, access.NewSessions(s.peer))
	holdfastv1.RegisterAuditServiceServer(r, access.NewAudit(s.peer))
	holdfastv1.RegisterSecretServiceServer(r, access.NewSecrets(s.peer, s.cfg.Keys))
	holdfastv1.RegisterImageServiceServer(r, images.New(s.peer, s.cfg.Files))
	holdfastv1.RegisterHeartbeatServiceServer(r, s.heartbeats)
	holdfastv1.RegisterAgentServiceServer(r, registry.NewAgents(s.peer, s.cfg.EnrollLimit))
	holdfastv1.RegisterNodeServiceServer(r, fleet.NewNodes(s.peer, s.discovery()))
	holdfastv1.RegisterInstallServiceServer(r, installs.New(s.peer, s.discovery(), s.starts, s.cfg.Gate))
	holdfastv1.RegisterPoolServiceServer(r, registry.NewPools(s.peer, s.cfg.PlatformMarginPercent))
	holdfastv1.RegisterRegistryServiceServer(r, s.services)
	holdfastv1.RegisterEventServiceServer(r, events.New(s.peer))
	holdfastv1.RegisterWebhookServiceServer(r, events.NewWebhooks(s.peer, s.cfg.RefuseOpenWebhooks))
	internalv1.RegisterStageServiceServer(r, operator.NewStage(s.peer))
	grpc_health_v1.RegisterHealthServer(r, &healthService{Server: s})
	if rs, ok := r.(reflection.GRPCServer); ok {
		reflection.Register(rs)
	}
}

// discovery returns the configuration of the discovery of machines.
func (s *Server) discovery() fleet.Discovery {
	return fleet.Discovery{On: s.cfg.AutoDiscover, Limit: s.cfg.AutoDiscoverLimit}
}

// issuers returns the issuers with which people sign in, for clients.
func issuers(g *auth.Gate) []*holdfastv1.Issuer {
	var all []*holdfastv1.Issuer
	for _, s := range g.SignIns() {
		c := s.Config()
		all = append(all, &holdfastv1.Issuer{
			Issuer: c.URL, DisplayName: c.DisplayName, ClientId: c.CLIClientID, Scopes: c.Scopes, Audience: c.Audience,
		})
	}
	return all
}
