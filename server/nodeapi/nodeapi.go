// Package nodeapi is the HTTP API of the node state machine (spec 004): nodes, their states and history, the reports of installers.
//
// It owns the wire form: the envelopes, {"detail": …} for errors, and the words that clients know. Who may call is the gate's to decide,
// what a call means the services'. A node is a machine; {id} is its id or one of its MAC addresses. It must not know the FSM or the
// cluster.
package nodeapi

import (
	"errors"
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

// Register adds the routes to a mux, each with a slash at its end too. The services are called through rpc. Transitions are logged too
// (node state machine §Logging).
func Register(m *auth.Mux, rpc grpc.ClientConnInterface, log *slog.Logger) {
	a := &api{nodes: holdfastv1.NewNodeServiceClient(rpc), machines: holdfastv1.NewMachineServiceClient(rpc), log: log}
	for _, r := range []struct {
		pattern, method string
		handler         http.HandlerFunc
	}{
		{"GET " + base, "MachineService/ListMachines", a.list},
		{"POST " + base, "NodeService/CreateNode", a.create},
		{"GET " + base + "/stalled", "NodeService/ListStalledNodes", a.stalled},
		{"GET " + base + "/{id}", "NodeService/GetNode", a.get},
		{"PATCH " + base + "/{id}", "NodeService/UpdateNode", a.update},
		{"DELETE " + base + "/{id}", "NodeService/TransitionNode", a.retire},
		{"PATCH " + base + "/{id}/state", "NodeService/TransitionNode", a.transition},
		{"GET " + base + "/{id}/history", "MachineService/ListMachineHistory", a.history},
		{"POST " + base + "/{id}/tags", "NodeService/UpdateNode", a.addTag},
		{"DELETE " + base + "/{id}/tags/{tag}", "NodeService/UpdateNode", a.removeTag},
		{"POST /api/v1/report", "NodeService/ReportNode", a.report},
	} {
		rule := auth.SameAs("holdfast.v1." + r.method)
		m.HandleFunc(r.pattern, rule, refused, r.handler)
		m.HandleFunc(r.pattern+"/{$}", rule, refused, r.handler)
	}
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

func read(w http.ResponseWriter, r *http.Request, v any) bool {
	err := httpjson.Read(r, v)
	if err == nil {
		return true
	}
	bad, _ := errors.AsType[*httpjson.Bad](err)
	switch {
	case bad != nil && bad.TooLarge:
		httpjson.Write(w, http.StatusRequestEntityTooLarge, failure{err.Error()})
	case bad != nil && bad.Field != "":
		invalid(w, "body", bad.Field, err.Error(), "type_error")
	default:
		invalid(w, "body", "", err.Error(), "json_invalid")
	}
	return false
}

// fail words the error of a call.
func fail(w http.ResponseWriter, err error) {
	st := status.Convert(err)
	code, detail := http.StatusInternalServerError, any(st.Message())
	switch st.Code() {
	case codes.Unauthenticated:
		code = http.StatusUnauthorized
	case codes.PermissionDenied:
		code = http.StatusForbidden
	case codes.InvalidArgument:
		code = http.StatusUnprocessableEntity
		all := []violation{}
		for _, f := range httpjson.Fields(err) {
			all = append(all, violation{append([]string{"body"}, strings.Split(f.GetField(), ".")...), f.GetDescription(), "value_error"})
		}
		if len(all) == 0 {
			all = append(all, violation{[]string{"body"}, st.Message(), "value_error"})
		}
		detail = all
	case codes.NotFound:
		code = http.StatusNotFound
		if httpjson.Reason(err) == "NODE_NOT_FOUND" || httpjson.Reason(err) == "MACHINE_NOT_FOUND" {
			detail = "Node not found"
		}
	case codes.AlreadyExists:
		code = http.StatusConflict
	case codes.FailedPrecondition, codes.Aborted:
		code = http.StatusBadRequest
	case codes.ResourceExhausted:
		code = http.StatusTooManyRequests
	case codes.Unavailable, codes.DeadlineExceeded:
		code = http.StatusServiceUnavailable
	}
	httpjson.Write(w, code, failure{detail})
}
