// Package discoveryapi is the HTTP API of service discovery (spec 003). Services register,
// ping, report their state and deregister. Routers read the list of registered services.
//
// It owns the wire form, which clients in the field parse strictly: {"error": …, "data": …}
// and the nine members of a ServiceTarget. The gate decides which calls are allowed, and
// the gRPC services carry them out. It must not import the FSM or the cluster.
package discoveryapi

import (
	"context"
	"net/http"
	"strings"

	"google.golang.org/grpc"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/auth"
	"github.com/holdfast-metal/holdfast/server/httpjson"
)

const base = "/api/v1/management/discovery"

// Watcher streams the changes of services until ctx ends or send fails. Its errors are statuses.
type Watcher interface {
	Services(ctx context.Context, filter string, cursor uint64, send func(*holdfastv1.ServiceEvent) error) error
}

// Heartbeats accepts pings (server.Heartbeats). Its errors are statuses.
type Heartbeats interface {
	PingService(ctx context.Context, r *holdfastv1.PingServiceRequest) (*holdfastv1.PingServiceResponse, error)
}

type api struct {
	registry   holdfastv1.RegistryServiceClient
	heartbeats Heartbeats
	access     holdfastv1.AccessServiceClient
	watch      Watcher
}

// Register adds the routes to a mux, each with and without a trailing slash. Calls to the
// services use rpc; pings go to heartbeats and streams come from watch.
func Register(m *auth.Mux, rpc grpc.ClientConnInterface, heartbeats Heartbeats, watch Watcher) {
	a := &api{
		registry:   holdfastv1.NewRegistryServiceClient(rpc),
		heartbeats: heartbeats,
		access:     holdfastv1.NewAccessServiceClient(rpc),
		watch:      watch,
	}
	m.Fallback(base+"/", refused)
	m.Fallback("/api/v1/capabilities/", refused)
	route := httpjson.NewRoute
	httpjson.Add(m, refused,
		route("POST "+base+"/register", "RegistryService/RegisterService", a.register),
		route("POST "+base+"/deregister", "RegistryService/DeregisterService", a.deregister),
		route("POST "+base+"/update/{id}", "RegistryService/UpdateServiceState", a.update),
		route("POST "+base+"/ping", "HeartbeatService/PingService", a.ping),
		route("GET /api/v1/capabilities", "RegistryService/ListServices", a.list),
		route("GET /api/v1/capabilities/tools/state", "RegistryService/ListServices",
			a.states("tool-invoker", "multi-capability")),
		route("GET /api/v1/capabilities/resources/state", "RegistryService/ListServices",
			a.states("resource-provider", "multi-capability")),
		route("GET /api/v1/capabilities/notifications", "RegistryService/WatchServices", a.notifications),
	)
}

// response is the envelope of every answer. Both members are always present.
type response struct {
	Error *failure `json:"error"`
	Data  any      `json:"data"`
}

type failure struct {
	Message string `json:"message"`
}

func refuse(w http.ResponseWriter, code int, message string) {
	httpjson.Write(w, code, response{Error: &failure{message}})
}

func refused(w http.ResponseWriter, _ *http.Request, code int, err *auth.Error) {
	refuse(w, code, err.Message)
}

func fail(w http.ResponseWriter, err error) {
	code := httpjson.Status(err)
	if code == http.StatusConflict { // clients retry a 503 but not a 409 (docs/clients.md, 003)
		code = http.StatusServiceUnavailable
	}
	refuse(w, code, httpjson.MessageAs(err, member))
}

// member returns the member of this API for a field of a service: serviceName for
// target.service_name.
func member(field string) string {
	words := strings.Split(strings.TrimPrefix(strings.TrimPrefix(field, "target."), "state."), "_")
	for i, w := range words[1:] {
		if w != "" {
			words[i+1] = strings.ToUpper(w[:1]) + w[1:]
		}
	}
	return strings.Join(words, "")
}

// done responds to a call whose response has no body.
func done(w http.ResponseWriter, err error) {
	if err != nil {
		fail(w, err)
		return
	}
	w.WriteHeader(http.StatusOK)
}

// read decodes the body into v. If the body is invalid, it writes the error and returns
// false.
func read(w http.ResponseWriter, r *http.Request, v any) bool {
	bad := httpjson.Read(r, v)
	if bad != nil {
		refuse(w, bad.Status(), bad.Message)
	}
	return bad == nil
}

func (a *api) register(w http.ResponseWriter, r *http.Request) {
	var in target
	if !read(w, r, &in) {
		return
	}
	svc, err := a.registry.RegisterService(r.Context(), &holdfastv1.RegisterServiceRequest{Target: in.proto()})
	if err != nil {
		fail(w, err)
		return
	}
	httpjson.Write(w, http.StatusOK, response{Data: showTarget(svc.GetTarget())})
}

func (a *api) deregister(w http.ResponseWriter, r *http.Request) {
	var in target
	if !read(w, r, &in) {
		return
	}
	t := in.proto()
	req := &holdfastv1.DeregisterServiceRequest{Id: t.GetId(), Target: t}
	_, err := a.registry.DeregisterService(r.Context(), req)
	done(w, err)
}

func (a *api) update(w http.ResponseWriter, r *http.Request) {
	var in state
	if !read(w, r, &in) {
		return
	}
	req := &holdfastv1.UpdateServiceStateRequest{Id: r.PathValue("id"), State: in.proto()}
	_, err := a.registry.UpdateServiceState(r.Context(), req)
	done(w, err)
}

// maxID bounds the part of an id that is read. No id is longer.
const maxID = 64 // bytes

// ping reads a raw id, with or without quotes. The content type is ignored.
func (a *api) ping(w http.ResponseWriter, r *http.Request) {
	b, bad := httpjson.Body(r)
	if bad != nil {
		refuse(w, bad.Status(), bad.Message)
		return
	}
	id := strings.Trim(strings.TrimSpace(string(b)), `"`)
	if id == "" {
		refuse(w, http.StatusBadRequest, "body is empty: want the id of a service")
		return
	}
	req := &holdfastv1.PingServiceRequest{Id: strings.ToValidUTF8(id[:min(len(id), maxID)], "")}
	_, err := a.heartbeats.PingService(r.Context(), req)
	done(w, err)
}
