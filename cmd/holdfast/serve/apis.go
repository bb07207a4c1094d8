package serve

import (
	"log/slog"

	"google.golang.org/grpc"

	"github.com/holdfast-metal/holdfast/server"
	"github.com/holdfast-metal/holdfast/server/auth"
	"github.com/holdfast-metal/holdfast/server/discoveryapi"
	"github.com/holdfast-metal/holdfast/server/jsonapi"
	"github.com/holdfast-metal/holdfast/server/machineapi"
	"github.com/holdfast-metal/holdfast/server/netbootapi"
	"github.com/holdfast-metal/holdfast/server/nodeapi"
	"github.com/holdfast-metal/holdfast/server/openapi"
	"github.com/holdfast-metal/holdfast/server/poolapi"
	"github.com/holdfast-metal/holdfast/server/prometheusapi"
	"github.com/holdfast-metal/holdfast/server/ui"
)

// apis returns the HTTP APIs: those of the specifications, netboot, Prometheus's discovery,
// holdfast.v1 as JSON, their OpenAPI descriptions, and the dashboard.
func apis(
	srv *server.Server, netboot netbootapi.Config, past ui.Histories, sessions ui.Sealer, log *slog.Logger,
) []func(*auth.Mux, grpc.ClientConnInterface) {
	heartbeats := srv.Heartbeats()
	return []func(*auth.Mux, grpc.ClientConnInterface){
		func(m *auth.Mux, rpc grpc.ClientConnInterface) { machineapi.Register(m, rpc, heartbeats, log) },
		func(m *auth.Mux, rpc grpc.ClientConnInterface) { nodeapi.Register(m, rpc, log) },
		func(m *auth.Mux, rpc grpc.ClientConnInterface) { netbootapi.Register(m, rpc, netboot, log) },
		func(m *auth.Mux, rpc grpc.ClientConnInterface) { poolapi.Register(m, rpc, heartbeats) },
		func(m *auth.Mux, rpc grpc.ClientConnInterface) { discoveryapi.Register(m, rpc, heartbeats, srv) },
		func(m *auth.Mux, rpc grpc.ClientConnInterface) { prometheusapi.Register(m, rpc) },
		jsonapi.Register,
		func(m *auth.Mux, _ grpc.ClientConnInterface) { openapi.Register(m) },
		func(m *auth.Mux, rpc grpc.ClientConnInterface) { ui.Register(m, rpc, srv, past, sessions, log) },
	}
}
