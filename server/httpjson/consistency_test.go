package httpjson_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/auth"
	"github.com/holdfast-metal/holdfast/server/httpjson"
	"github.com/holdfast-metal/holdfast/server/inproc"
)

// pools answers each call with another index and records the requested consistency. A pool
// without a name is not found.
type pools struct {
	holdfastv1.UnimplementedPoolServiceServer
	asked []string
}

func (p *pools) GetPool(ctx context.Context, r *holdfastv1.GetPoolRequest) (*holdfastv1.Pool, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	p.asked = append(p.asked, strings.Join(md.Get("holdfast-consistency"), ","))
	at := metadata.Pairs("holdfast-index", fmt.Sprint(40+len(p.asked)), "holdfast-leader", "n1",
		"holdfast-last-contact-ms", "7", "other", "x")
	if err := grpc.SetHeader(ctx, at); err != nil {
		return nil, err
	}
	if r.GetPoolId() == "none" {
		return nil, status.Error(codes.NotFound, "none")
	}
	return &holdfastv1.Pool{}, nil
}

// TestConsistency: a read may request this peer's own state. Responses, including errors,
// have the position headers.
func TestConsistency(t *testing.T) {
	for _, tt := range []struct {
		method, path string
		want         string   // status, body, and the position headers
		asked        []string // consistency of the two calls of a request
	}{
		{"GET", "/a/x", `200 "x" index 41 leader n1 contact 7`, []string{"", ""}},
		{"GET", "/a/x?more=1&consistency=stale", `200 "x" index 41 leader n1 contact 7`, []string{"stale", "stale"}},
		{"GET", "/a/x/?consistency=linearizable", `200 "x" index 41 leader n1 contact 7`, []string{"", ""}},
		{"GET", "/a/none?consistency=stale", `404 "none" index 41 leader n1 contact 7`, []string{"stale"}},
		{"GET", "/a/x?consistency=fresh",
			`400 "consistency is \"fresh\": want stale or linearizable" index  leader  contact `, nil},
		{"POST", "/a/x?consistency=stale", `200 "x" index 42 leader n1 contact 7`, []string{"", ""}},
		{"POST", "/beat?consistency=fresh", `200 "beat" index  leader  contact `, nil},
	} {
		m, rpc, p := auth.Open().NewMux(), inproc.New(nil, nil), &pools{}
		holdfastv1.RegisterPoolServiceServer(rpc, p)
		calls := holdfastv1.NewPoolServiceClient(httpjson.Conn(rpc))
		handler := func(w http.ResponseWriter, r *http.Request) {
			for range 2 {
				if _, err := calls.GetPool(r.Context(), &holdfastv1.GetPoolRequest{PoolId: r.PathValue("id")}); err != nil {
					httpjson.Write(w, httpjson.Status(err), httpjson.Message(err))
					return
				}
			}
			httpjson.Write(w, http.StatusOK, r.PathValue("id"))
		}
		writeError := func(w http.ResponseWriter, _ *http.Request, code int, err *auth.Error) {
			httpjson.Write(w, code, err.Message)
		}
		httpjson.Add(m, writeError,
			httpjson.Route{Pattern: "GET /a/{id}", RPC: "PoolService/GetPool", Handler: handler},
			httpjson.Route{Pattern: "POST /a/{id}", RPC: "PoolService/DeletePool", Handler: handler},
			httpjson.Route{Pattern: "POST /beat", RPC: "HeartbeatService/HeartbeatPool",
				Handler: func(w http.ResponseWriter, _ *http.Request) { httpjson.Write(w, 200, "beat") }})
		w := httptest.NewRecorder()
		m.ServeHTTP(w, httptest.NewRequest(tt.method, "http://localhost"+tt.path, nil))
		h := w.Header()
		got := fmt.Sprintf("%d %s index %s leader %s contact %s", w.Code, strings.TrimSpace(w.Body.String()),
			h.Get("Holdfast-Index"), h.Get("Holdfast-Leader"), h.Get("Holdfast-Last-Contact-Ms"))
		if got != tt.want || h.Get("Other") != "" {
			t.Errorf("%s %s: got %s (%v), want %s", tt.method, tt.path, got, h, tt.want)
		}
		if diff := cmp.Diff(tt.asked, p.asked); diff != "" {
			t.Errorf("%s %s: consistency of the calls (-want +got):\n%s", tt.method, tt.path, diff)
		}
	}
}
