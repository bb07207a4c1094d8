package machineapi

import (
	"errors"
	"log/slog"
	"net/http"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/auth"
	"github.com/holdfast-metal/holdfast/server/httpjson"
)

// api serves the routes.
type api struct {
	agents holdfastv1.AgentServiceClient
	beats  holdfastv1.HeartbeatServiceClient
	log    *slog.Logger
}

// Register adds the routes to a mux. Each is there with a slash at its end too. The services are called through rpc.
func Register(m *auth.Mux, rpc grpc.ClientConnInterface, log *slog.Logger) {
	a := &api{agents: holdfastv1.NewAgentServiceClient(rpc), beats: holdfastv1.NewHeartbeatServiceClient(rpc), log: log}
	for _, r := range []struct {
		pattern string
		rule    auth.Rule
		handler http.HandlerFunc
	}{
		{"POST /api/v1/machine/register", auth.SameAs("holdfast.v1.AgentService/RegisterAgent"), a.register},
		{"POST /api/v1/machine/keepalive", auth.SameAs("holdfast.v1.HeartbeatService/KeepMachineAlive"), a.keepalive},
		{"GET /api/v1/machine/list", auth.SameAs("holdfast.v1.AgentService/ListAgentMachines"), a.list},
		{"GET /api/v1/machine/config", auth.SameAs("holdfast.v1.AgentService/ListAgentMachines"), a.config},
	} {
		m.HandleFunc(r.pattern, r.rule, refused, r.handler)
		m.HandleFunc(r.pattern+"/{$}", r.rule, refused, r.handler)
	}
}

// failure is the body of every error (machine registration §Errors).
type failure struct {
	Message    string `json:"message"`
	ErrorCode  string `json:"error_code,omitempty"`
	Suggestion string `json:"suggestion,omitempty"`
}

// The answers of the gate.
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

// agentOnly refuses the tokens of people: a valid token of another kind is 403 (specs/README.md, 000).
func agentOnly(w http.ResponseWriter, r *http.Request) bool {
	switch id := auth.From(r.Context()); {
	case id.GetMethod() == auth.MethodInsecure, id.GetRole() == holdfastv1.Role_AGENT, id.GetRole() == holdfastv1.Role_POOL_AGENT:
		return true
	}
	answer(w, http.StatusForbidden, invalidToken())
	return false
}

// read takes a JSON object; members that are not known are passed over.
func read(w http.ResponseWriter, r *http.Request, into any) bool {
	err := httpjson.Read(r, into)
	var bad *httpjson.Bad
	switch {
	case err == nil:
		return true
	case errors.As(err, &bad) && bad.TooLarge:
		answer(w, http.StatusRequestEntityTooLarge, failure{Message: "Payload too large"})
	default:
		answer(w, http.StatusBadRequest, failure{Message: "Invalid payload", Suggestion: err.Error()})
	}
	return false
}

func answer(w http.ResponseWriter, code int, body any) { httpjson.Write(w, code, body) }

// fail words the error of a call. Other is what the document says of errors that it does not name.
func (a *api) fail(w http.ResponseWriter, err error, other failure) {
	st := status.Convert(err)
	switch st.Code() {
	case codes.Unauthenticated:
		answer(w, http.StatusUnauthorized, failure{Message: "Unauthorized"})
	case codes.PermissionDenied:
		answer(w, http.StatusForbidden, invalidToken())
	case codes.InvalidArgument:
		answer(w, http.StatusBadRequest, failure{Message: "Invalid payload", Suggestion: st.Message()})
	case codes.ResourceExhausted:
		answer(w, http.StatusTooManyRequests, failure{Message: st.Message()})
	case codes.Unavailable, codes.DeadlineExceeded:
		answer(w, http.StatusServiceUnavailable, failure{Message: "The cluster has no leader at the moment: try again", Suggestion: st.Message()})
	default:
		a.log.Warn("machine API call failed", "code", st.Code().String(), "error", st.Message())
		answer(w, http.StatusInternalServerError, other)
	}
}
