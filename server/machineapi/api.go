package machineapi

import (
	"context"
	"log/slog"
	"net/http"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/auth"
	"github.com/holdfast-metal/holdfast/server/httpjson"
)

// Heartbeats accepts keepalives (server.Heartbeats). Its errors are statuses.
type Heartbeats interface {
	KeepMachineAlive(
		ctx context.Context,
		r *holdfastv1.KeepMachineAliveRequest,
	) (*holdfastv1.KeepMachineAliveResponse, error)
}

// api serves the routes.
type api struct {
	agents     holdfastv1.AgentServiceClient
	heartbeats Heartbeats
	log        *slog.Logger
}

// Register adds the routes to a mux, each with and without a trailing slash. Calls to the
// services use rpc; keepalives go to heartbeats.
func Register(m *auth.Mux, rpc grpc.ClientConnInterface, heartbeats Heartbeats, log *slog.Logger) {
	a := &api{agents: holdfastv1.NewAgentServiceClient(rpc), heartbeats: heartbeats, log: log}
	m.Fallback("/api/v1/machine/", refused)
	route := httpjson.NewRoute
	httpjson.Add(m, refused,
		route("POST /api/v1/machine/register", "AgentService/RegisterAgent", a.register),
		route("POST /api/v1/machine/keepalive", "HeartbeatService/KeepMachineAlive", a.keepalive),
		route("GET /api/v1/machine/list", "AgentService/ListAgentMachines", a.list),
		route("GET /api/v1/machine/config", "AgentService/ListAgentMachines", a.config),
	)
}

// failure is the body of every error.
type failure struct {
	Message    string `json:"message"`
	ErrorCode  string `json:"error_code,omitempty"`
	Suggestion string `json:"suggestion,omitempty"`
}

// refused writes the errors of the gate.
func refused(w http.ResponseWriter, _ *http.Request, code int, err *auth.Error) {
	switch code {
	case http.StatusUnauthorized:
		answer(w, code, failure{Message: "Unauthorized"})
	case http.StatusForbidden:
		answer(w, code, invalidToken())
	default:
		answer(w, code, failure{Message: err.Message})
	}
}

func invalidToken() failure { return failure{Message: "Invalid token", ErrorCode: "invalid_token"} }

// agentOnly refuses tokens of people: a valid token of another kind is 403
// (docs/clients.md, 000).
func agentOnly(w http.ResponseWriter, r *http.Request) bool {
	switch id := auth.From(r.Context()); {
	case id.GetMethod() == auth.MethodInsecure,
		id.GetRole() == holdfastv1.Role_AGENT,
		id.GetRole() == holdfastv1.Role_POOL_AGENT,
		id.GetRole() == holdfastv1.Role_ENROLLER:
		return true
	}
	answer(w, http.StatusForbidden, invalidToken())
	return false
}

// read decodes the body. If it is invalid, it writes the error and returns false.
func read(w http.ResponseWriter, r *http.Request, into any) bool {
	switch bad := httpjson.Read(r, into); {
	case bad == nil:
		return true
	case bad.TooLarge:
		answer(w, bad.Status(), failure{Message: "Payload too large"})
	default:
		answer(w, bad.Status(), failure{Message: "Invalid payload", Suggestion: bad.Message})
	}
	return false
}

func answer(w http.ResponseWriter, code int, body any) { httpjson.Write(w, code, body) }

// fail writes the error of a call. other is the body for errors that the specification does
// not name.
func (a *api) fail(w http.ResponseWriter, err error, other failure) {
	code, message := httpjson.Status(err), httpjson.Message(err)
	switch code {
	case http.StatusBadRequest:
		answer(w, code, failure{Message: "Invalid payload", Suggestion: message})
	case http.StatusUnauthorized:
		answer(w, code, failure{Message: "Unauthorized"})
	case http.StatusForbidden:
		f := invalidToken()
		if httpjson.Reason(err) == "MACHINE_ENROLLED" {
			f.Suggestion = message
		}
		answer(w, code, f)
	case http.StatusConflict:
		if httpjson.Reason(err) != fsm.ReasonEnrollmentFull {
			a.failInside(w, err, other)
			return
		}
		f := invalidToken()
		f.Suggestion = message
		answer(w, http.StatusForbidden, f)
	case http.StatusTooManyRequests:
		answer(w, code, failure{Message: message})
	case http.StatusServiceUnavailable:
		a.log.Warn("machine API call was not answered, the caller will retry", "reason", httpjson.Reason(err),
			"error", message)
		answer(w, code, failure{
			Message:    unavailable(httpjson.Reason(err)),
			Suggestion: "Repeat the request after a second. An operator finds the cause with holdfast cluster status",
		})
	default:
		a.failInside(w, err, other)
	}
}

// unavailable returns the message about a request that no leader has answered, by its outcome.
func unavailable(reason string) string {
	switch reason {
	case "NO_LEADER":
		return "The cluster has no leader at the moment: try again"
	case "NOT_APPLIED":
		return "The leader changed before it received the request: try again"
	case "SHUTTING_DOWN":
		return "This peer is shutting down: try again"
	case "OUTCOME_UNKNOWN":
		return "The leader was lost, and the outcome of the request is unknown: try again"
	}
	return "The request was not answered in time, and its outcome is unknown: try again"
}

// failInside answers a failure that the caller cannot change.
func (a *api) failInside(w http.ResponseWriter, err error, other failure) {
	a.log.Warn("machine API call failed", "code", status.Code(err).String(), "error", httpjson.Message(err))
	answer(w, http.StatusInternalServerError, other)
}
