// Package discoveryapi is the HTTP API of service discovery (spec 003): services register, ping, report and leave; routers read who is there.
//
// It owns the wire form, which clients in the field parse strictly: {"error": …, "data": …} and the nine members of a ServiceTarget, no
// others. Who may call is the gate's to decide, what a call means the services'. It must not know the FSM or the cluster.
package discoveryapi

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/auth"
	"github.com/holdfast-metal/holdfast/server/httpjson"
)

const base = "/api/v1/management/discovery"

// Watcher streams the changes of services until ctx ends or send fails.
type Watcher interface {
	Services(ctx context.Context, filter string, cursor uint64, send func(*holdfastv1.ServiceEvent) error) error
}

type api struct {
	registry holdfastv1.RegistryServiceClient
	beats    holdfastv1.HeartbeatServiceClient
	watch    Watcher
}

// Register adds the routes to a mux, each with a slash at its end too. The services are called through rpc; streams come from watch.
func Register(m *auth.Mux, rpc grpc.ClientConnInterface, watch Watcher) {
	a := &api{registry: holdfastv1.NewRegistryServiceClient(rpc), beats: holdfastv1.NewHeartbeatServiceClient(rpc), watch: watch}
	for _, r := range []struct {
		pattern, method string
		handler         http.HandlerFunc
	}{
		{"POST " + base + "/register", "holdfast.v1.RegistryService/RegisterService", a.register},
		{"POST " + base + "/deregister", "holdfast.v1.RegistryService/DeregisterService", a.deregister},
		{"POST " + base + "/update/{id}", "holdfast.v1.RegistryService/UpdateServiceState", a.update},
		{"POST " + base + "/ping", "holdfast.v1.HeartbeatService/PingService", a.ping},
		{"GET /api/v1/capabilities", "holdfast.v1.RegistryService/ListServices", a.list},
		{"GET /api/v1/capabilities/tools/state", "holdfast.v1.RegistryService/ListServices", a.states("tool-invoker", "multi-capability", "code-execution-engine")},
		{"GET /api/v1/capabilities/resources/state", "holdfast.v1.RegistryService/ListServices", a.states("resource-provider", "multi-capability")},
		{"GET /api/v1/capabilities/notifications", "holdfast.v1.RegistryService/WatchServices", a.notifications},
	} {
		m.HandleFunc(r.pattern, auth.SameAs(r.method), refused, r.handler)
		m.HandleFunc(r.pattern+"/{$}", auth.SameAs(r.method), refused, r.handler)
	}
}

// response is the envelope: both members are always there (discovery API §WanakuResponse).
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
	st := status.Convert(err)
	code := http.StatusInternalServerError
	switch st.Code() {
	case codes.Unauthenticated:
		code = http.StatusUnauthorized
	case codes.PermissionDenied:
		code = http.StatusForbidden
	case codes.InvalidArgument:
		code = http.StatusBadRequest
	case codes.NotFound:
		code = http.StatusNotFound
	case codes.ResourceExhausted:
		code = http.StatusTooManyRequests
	case codes.Unavailable, codes.DeadlineExceeded:
		code = http.StatusServiceUnavailable
	}
	refuse(w, code, st.Message())
}

func read(w http.ResponseWriter, r *http.Request, v any) bool {
	err := httpjson.Read(r, v)
	if err == nil {
		return true
	}
	code := http.StatusBadRequest
	if bad, ok := errors.AsType[*httpjson.Bad](err); ok && bad.TooLarge {
		code = http.StatusRequestEntityTooLarge
	}
	refuse(w, code, err.Error())
	return false
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
	if _, err := a.registry.DeregisterService(r.Context(), &holdfastv1.DeregisterServiceRequest{Id: t.GetId(), Target: t}); err != nil {
		fail(w, err)
		return
	}
	w.WriteHeader(http.StatusOK)
}

func (a *api) update(w http.ResponseWriter, r *http.Request) {
	var in state
	if !read(w, r, &in) {
		return
	}
	if _, err := a.registry.UpdateServiceState(r.Context(), &holdfastv1.UpdateServiceStateRequest{Id: r.PathValue("id"), State: in.proto()}); err != nil {
		fail(w, err)
		return
	}
	w.WriteHeader(http.StatusOK)
}

// ping takes a raw id, whatever the content type says; one in quotes too.
func (a *api) ping(w http.ResponseWriter, r *http.Request) {
	b, err := io.ReadAll(io.LimitReader(r.Body, 256))
	if err != nil {
		refuse(w, http.StatusBadRequest, "body did not come whole")
		return
	}
	id := strings.Trim(strings.TrimSpace(string(b)), `"`)
	if id == "" {
		refuse(w, http.StatusBadRequest, "body is empty: want the id of a service")
		return
	}
	if _, err := a.beats.PingService(r.Context(), &holdfastv1.PingServiceRequest{Id: strings.ToValidUTF8(id, "")}); err != nil {
		fail(w, err)
		return
	}
	w.WriteHeader(http.StatusOK)
}
