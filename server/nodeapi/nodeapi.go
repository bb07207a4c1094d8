// Package nodeapi is the HTTP API of the node state machine (spec 004): nodes, their states and
// history, the reports of installers.
//
// It owns the wire form: the envelopes, {"detail": …} for errors, and the words that clients know.
// Who may call is the gate's to decide, what a call means the services'. A node is a machine; {id}
// is its id or one of its MAC addresses. It must not know the FSM or the cluster.
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

// Register adds the routes to a mux, each with a slash at its end too. The services are called
// through rpc. Transitions are logged too (node state machine §Logging).
func Register(m *auth.Mux, rpc grpc.ClientConnInterface, log *slog.Logger) {
	a := &api{nodes: holdfastv1.NewNodeServiceClient(rpc), machines: holdfastv1.NewMachineServiceClient(rpc), log: log}
	m.Otherwise(base+"/", refused)
	m.Otherwise("/api/v1/report/", refused)
	httpjson.Add(m, refused,
		httpjson.Route{Pattern: "GET " + base, RPC: "MachineService/ListMachines", Handler: a.list},
		httpjson.Route{Pattern: "POST " + base, RPC: "NodeService/CreateNode", Handler: a.create},
		httpjson.Route{Pattern: "GET " + base + "/stalled", RPC: "NodeService/ListStalledNodes", Handler: a.stalled},
		httpjson.Route{Pattern: "GET " + base + "/{id}", RPC: "NodeService/GetNode", Handler: a.get},
		httpjson.Route{Pattern: "PATCH " + base + "/{id}", RPC: "NodeService/UpdateNode", Handler: a.update},
		httpjson.Route{Pattern: "DELETE " + base + "/{id}", RPC: "NodeService/TransitionNode", Handler: a.retire},
		httpjson.Route{Pattern: "PATCH " + base + "/{id}/state", RPC: "NodeService/TransitionNode", Handler: a.transition},
		httpjson.Route{Pattern: "GET " + base + "/{id}/history", RPC: "MachineService/ListMachineHistory", Handler: a.history},
		httpjson.Route{Pattern: "POST " + base + "/{id}/tags", RPC: "NodeService/UpdateNode", Handler: a.addTag},
		httpjson.Route{Pattern: "DELETE " + base + "/{id}/tags/{tag}", RPC: "NodeService/UpdateNode", Handler: a.removeTag},
		httpjson.Route{Pattern: "POST /api/v1/report", RPC: "NodeService/ReportNode", Handler: a.report},
	)
}

// envelope is the body of every answer about one node.
type envelope struct {
	Success bool   `json:"success"`
	Data    any    `json:"data"`
	Message string `json:"message"`
}

// many is the body of every list.
type many struct {
	Success bool   `json:"success"`
	Data    any    `json:"data"`
	Message string `json:"message"`
	Total   int    `json:"total"`
}

// failure is the body of every error: a text, or a list of violations.
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

// invalid answers 422 about one member of the body.
func invalid(w http.ResponseWriter, where, field, msg, kind string) {
	loc := []string{where}
	if field != "" {
		loc = append(loc, strings.Split(field, ".")...)
	}
	httpjson.Write(w, http.StatusUnprocessableEntity, failure{[]violation{{loc, msg, kind}}})
}

// read takes a body, or answers what is wrong with it.
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

// fail words the error of a call.
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

// violations reports what is wrong with the fields of a call.
func violations(err error) []violation {
	var all []violation
	for _, f := range httpjson.Fields(err) {
		all = append(all, violation{append([]string{"body"}, strings.Split(f.GetField(), ".")...), f.GetDescription(), "value_error"})
	}
	if len(all) == 0 {
		all = append(all, violation{[]string{"body"}, httpjson.Message(err), "value_error"})
	}
	return all
}
