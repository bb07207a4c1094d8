// Package nodeapi is the HTTP API of the node state machine (spec 004): nodes, their states
// and history, and the reports of installers.
//
// It owns the wire form: the envelopes, {"detail": …} for errors, and the names that
// clients know. The gate decides which calls are allowed, and the gRPC services carry them
// out. A node is a machine; {id} is its id or one of its MAC addresses. It must not import
// the FSM or the cluster.
package nodeapi

import (
	"log/slog"
	"net/http"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/auth"
	"github.com/holdfast-metal/holdfast/server/httpjson"
)

const base = "/api/v1/nodes"

type api struct {
	nodes    holdfastv1.NodeServiceClient
	machines holdfastv1.MachineServiceClient
	log      *slog.Logger
}

// Register adds the routes to a mux, each with and without a trailing slash. Calls to the
// services use rpc. Transitions are also logged.
func Register(m *auth.Mux, rpc grpc.ClientConnInterface, log *slog.Logger) {
	a := &api{
		nodes:    holdfastv1.NewNodeServiceClient(rpc),
		machines: holdfastv1.NewMachineServiceClient(rpc),
		log:      log,
	}
	m.Fallback(base+"/", refused)
	m.Fallback("/api/v1/report/", refused)
	route := httpjson.NewRoute
	httpjson.Add(m, refused,
		route("GET "+base, "MachineService/ListMachines", a.list),
		route("POST "+base, "NodeService/CreateNode", a.create),
		route("GET "+base+"/stalled", "NodeService/ListStalledNodes", a.stalled),
		route("GET "+base+"/{id}", "NodeService/GetNode", a.get),
		route("PATCH "+base+"/{id}", "NodeService/UpdateNode", a.update),
		route("DELETE "+base+"/{id}", "NodeService/TransitionNode", a.retire),
		route("PATCH "+base+"/{id}/state", "NodeService/TransitionNode", a.transition),
		route("GET "+base+"/{id}/history", "MachineService/ListMachineHistory", a.history),
		route("POST "+base+"/{id}/tags", "NodeService/UpdateNode", a.addTag),
		route("DELETE "+base+"/{id}/tags/{tag}", "NodeService/UpdateNode", a.removeTag),
		route("POST /api/v1/report", "NodeService/ReportNode", a.report),
	)
}

// envelope is the body of a response about one node.
type envelope struct {
	Success bool   `json:"success"`
	Data    any    `json:"data"`
	Message string `json:"message"`
}

// many is the body of a list.
type many struct {
	Success bool   `json:"success"`
	Data    any    `json:"data"`
	Message string `json:"message"`
	Total   int    `json:"total"`
}

// failure is the body of an error: a text or a list of violations.
type failure struct {
	Detail any `json:"detail"`
}

type violation struct {
	Loc  []string `json:"loc"`
	Msg  string   `json:"msg"`
	Type string   `json:"type"`
}

func refused(w http.ResponseWriter, _ *http.Request, code int, err *auth.Error) {
	httpjson.Write(w, code, failure{err.Message})
}

func ok(w http.ResponseWriter, m *holdfastv1.Machine, message string) {
	httpjson.Write(w, http.StatusOK, envelope{true, show(m), message})
}

// invalid responds with 422 for one member of the body.
func invalid(w http.ResponseWriter, where, field, msg, kind string) {
	loc := []string{where}
	if field != "" {
		loc = append(loc, strings.Split(field, ".")...)
	}
	httpjson.Write(w, http.StatusUnprocessableEntity, failure{[]violation{{loc, msg, kind}}})
}

// read decodes the body. If it is invalid, it writes the error and returns false.
func read(w http.ResponseWriter, r *http.Request, v any) bool {
	bad := httpjson.Read(r, v)
	switch {
	case bad == nil:
		return true
	case bad.TooLarge:
		httpjson.Write(w, bad.Status(), failure{bad.Message})
	case bad.Field != "":
		invalid(w, "body", bad.Field, bad.Message, "type_error")
	default:
		invalid(w, "body", "", bad.Message, "json_invalid")
	}
	return false
}

// fail writes the error of a call.
func fail(w http.ResponseWriter, err error) {
	code, detail := httpjson.Status(err), any(httpjson.Message(err))
	switch reason := httpjson.Reason(err); status.Code(err) {
	case codes.InvalidArgument:
		code, detail = http.StatusUnprocessableEntity, violations(err)
	case codes.FailedPrecondition, codes.Aborted:
		code = http.StatusBadRequest
	case codes.NotFound:
		if reason == "NODE_NOT_FOUND" || reason == "MACHINE_NOT_FOUND" {
			detail = "Node not found"
		}
	}
	httpjson.Write(w, code, failure{detail})
}

// violations returns the field violations in a call's error.
func violations(err error) []violation {
	var all []violation
	for _, f := range httpjson.Fields(err) {
		loc := append([]string{"body"}, strings.Split(f.GetField(), ".")...)
		all = append(all, violation{loc, f.GetDescription(), "value_error"})
	}
	if len(all) == 0 {
		all = append(all, violation{[]string{"body"}, httpjson.Message(err), "value_error"})
	}
	return all
}
