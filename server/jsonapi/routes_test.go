package jsonapi_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server"
	"github.com/holdfast-metal/holdfast/server/auth"
	"github.com/holdfast-metal/holdfast/server/httpjson/apitest"
	"github.com/holdfast-metal/holdfast/server/jsonapi"
)

func routes(t testing.TB) map[string]jsonapi.Route {
	t.Helper()
	all, err := jsonapi.Routes()
	if err != nil {
		t.Fatal(err)
	}
	byName := map[string]jsonapi.Route{}
	for _, r := range all {
		byName[r.Name()] = r
	}
	return byName
}

func accessOf(m protoreflect.MethodDescriptor) *holdfastv1.MethodAccess {
	a, _ := proto.GetExtension(m.Options(), holdfastv1.E_Access).(*holdfastv1.MethodAccess)
	return a
}

// TestEveryMethodHasARoute checks that every public method has one route of its own. The methods of
// installers have theirs in netbootapi, which checks their sender.
func TestEveryMethodHasARoute(t *testing.T) {
	byName, patterns, seen := routes(t), map[string]string{}, 0
	protoregistry.GlobalFiles.RangeFilesByPackage("holdfast.v1", func(f protoreflect.FileDescriptor) bool {
		for i := range f.Services().Len() {
			for j := range f.Services().Get(i).Methods().Len() {
				m := f.Services().Get(i).Methods().Get(j)
				name := string(m.Parent().FullName()) + "/" + string(m.Name())
				r, ok := byName[name]
				if byMachines := accessOf(m).GetOverHttp(); ok == byMachines {
					t.Errorf("%s: has a route: %t, is for installers only: %t: add an option (google.api.http)", name, ok, byMachines)
				}
				if !ok {
					continue
				}
				seen++
				if other := patterns[r.Pattern()]; other != "" {
					t.Errorf("%s and %s have the route %s", name, other, r.Pattern())
				}
				patterns[r.Pattern()] = name
				if reads := strings.HasPrefix(r.Pattern(), "GET "); reads && !changesNothing(m) {
					t.Errorf("%s changes something, and has the route %s", name, r.Pattern())
				}
			}
		}
		return true
	})
	if seen < 70 {
		t.Errorf("got %d methods, too few to prove anything", seen)
	}
}

func changesNothing(m protoreflect.MethodDescriptor) bool {
	retry, _ := proto.GetExtension(m.Options(), holdfastv1.E_Retry).(*holdfastv1.MethodRetry)
	o := m.Options().ProtoReflect()
	level := o.Get(o.Descriptor().Fields().ByName("idempotency_level")).Enum()
	return level == 1 || retry.GetReads()
}

func lab(t testing.TB) *apitest.Lab {
	return apitest.New(t, func(m *auth.Mux, rpc grpc.ClientConnInterface, _ *server.Server) { jsonapi.Register(m, rpc) })
}

// recorder cancels a request when the first part of a stream has arrived.
type recorder struct {
	*httptest.ResponseRecorder
	cancel func()
}

func (r recorder) Flush() { r.cancel() }

// ask sends a request, and reads the first part of a stream.
func ask(l *apitest.Lab, token, verb, path, body string) *httptest.ResponseRecorder {
	ctx, cancel := context.WithCancel(l.Context())
	defer cancel()
	req := httptest.NewRequestWithContext(ctx, verb, "http://localhost"+path, strings.NewReader(body))
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+l.Secret(token))
	}
	w := recorder{httptest.NewRecorder(), cancel}
	l.Handler.ServeHTTP(w, req)
	return w.ResponseRecorder
}

// may reports whether the role of a token may call a method.
func may(token string, a *holdfastv1.MethodAccess) bool {
	rank := map[string]int{"viewer": 1, "operator": 2, "admin": 3}[token]
	least := map[holdfastv1.Role_Value]int{
		holdfastv1.Role_VIEWER: 1, holdfastv1.Role_OPERATOR: 2, holdfastv1.Role_ADMIN: 3,
	}[a.GetRole()]
	role := map[string]holdfastv1.Role_Value{
		"agent": holdfastv1.Role_AGENT, "gpu": holdfastv1.Role_POOL_AGENT, "service": holdfastv1.Role_SERVICE,
	}[token]
	return token != "" && a.GetAnyone() || rank == 3 || rank > 0 && least > 0 && rank >= least ||
		role != 0 && slices.Contains(a.GetAlso(), role)
}

// TestEveryMethodIsAuthorized calls every method with every role. A caller without the role of the
// method must be refused as in gRPC, and a caller with it must reach the method.
func TestEveryMethodIsAuthorized(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := lab(t)
		before := l.Dump()
		for name, r := range routes(t) {
			path := regexp.MustCompile(`\{[^}]*\}`).ReplaceAllString(r.Path, "none")
			for _, token := range []string{"", "revoked", "viewer", "operator", "admin", "agent", "gpu", "service"} {
				w := ask(l, token, r.Verb, path, "")
				body := w.Body.String()
				switch allowed := may(token, accessOf(r.Method)); {
				case accessOf(r.Method).GetPublic():
					if w.Code != http.StatusOK {
						t.Errorf("%s by %q: got %d %s, want 200 for anybody", name, token, w.Code, body)
					}
				case token == "" || token == "revoked":
					if w.Code != http.StatusUnauthorized || !strings.Contains(body, `"code":"UNAUTHENTICATED"`) {
						t.Errorf("%s without credentials: got %d %s", name, w.Code, body)
					}
				case !allowed && (w.Code != http.StatusForbidden || !strings.Contains(body, `"reason":"ROLE"`)):
					t.Errorf("%s by %s: got %d %s, want 403", name, token, w.Code, body)
				case allowed && (strings.Contains(body, `"reason":"ROLE"`) || strings.Contains(body, "NO_SUCH_") ||
					strings.Contains(body, "is not registered") || w.Code == http.StatusUnauthorized):
					t.Errorf("%s by %s: got %d %s", name, token, w.Code, body)
				}
				after := l.Dump()
				if w.Code >= 400 && after != before {
					t.Errorf("%s by %s: refused with %d, but changed the state", name, token, w.Code)
				}
				before = after
			}
		}
	})
}
