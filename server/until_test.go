package server

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/holdfast-metal/holdfast/internal/oidctest"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/server/auth"
	"github.com/holdfast-metal/holdfast/server/jsonapi"
)

// openStreams are the methods whose streams stay open, each with its first message. The console
// waits for its first message, so that the stream is idle in both directions.
func openStreams() map[string]any {
	return map[string]any{
		holdfastv1.EventService_WatchEvents_FullMethodName:      &holdfastv1.WatchEventsRequest{},
		holdfastv1.RunService_WatchRuns_FullMethodName:          &holdfastv1.WatchRunsRequest{},
		holdfastv1.RunService_StreamRunLogs_FullMethodName:      &holdfastv1.StreamRunLogsRequest{RunId: "run-00a"},
		holdfastv1.RegistryService_WatchServices_FullMethodName: &holdfastv1.WatchServicesRequest{},
		holdfastv1.ConsoleService_Attach_FullMethodName:         nil,
	}
}

// TestStreamsEndWithTheirToken: a stream ends when its access token expires or its token is
// revoked, although it is idle.
func TestStreamsEndWithTheirToken(t *testing.T) {
	idp := oidctest.New(t, oidctest.Settings{Claims: map[string]any{"roles": []string{"op"}}, Lifetime: 4 * time.Second})
	p := secureWith(t, auth.Config{Issuers: []auth.Issuer{
		{URL: idp.URL, Audience: "holdfast", Roles: map[string]string{"op": "operator"}},
	}}, func(*Config) {})
	c := p.connect(t, kind{name: "streams"})
	revocable := p.issue(t, &holdfastv1.Token{Name: "revocable", Role: holdfastv1.Role_ADMIN})
	type opened struct {
		name string
		end  chan error
	}
	for _, tt := range []struct {
		name, token string
		end         func()
		want        string
	}{
		{"expired", idp.Sign("holdfast", nil), func() {}, auth.ReasonTokenExpired},
		{"revoked", revocable, func() { p.Do(t, &internalv1.RevokeToken{TokenId: "tok-revocable"}) },
			auth.ReasonTokenRevoked},
	} {
		ctx := metadata.AppendToOutgoingContext(testCtx(t), "authorization", "Bearer "+tt.token)
		var all []opened
		for method, first := range openStreams() {
			s, err := c.conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, method)
			if err != nil {
				t.Fatalf("%s: %s: %v", tt.name, method, err)
			}
			if first != nil {
				if err := s.SendMsg(first); err != nil {
					t.Fatalf("%s: %s: %v", tt.name, method, err)
				}
			}
			o := opened{method, make(chan error, 1)}
			all = append(all, o)
			go func() {
				for {
					if err := s.RecvMsg(&holdfastv1.Role{}); err != nil {
						o.end <- err
						return
					}
				}
			}()
		}
		tt.end()
		for _, o := range all {
			select {
			case err := <-o.end:
				if status.Code(err) != codes.Unauthenticated || detail[*errdetails.ErrorInfo](err).GetReason() != tt.want {
					t.Errorf("%s: %s ended with %v, want UNAUTHENTICATED %s", tt.name, o.name, err, tt.want)
				}
			case <-ctx.Done():
				t.Errorf("%s: %s is still open", tt.name, o.name)
			}
		}
	}
}

// TestHTTPStreamEndsWithItsToken: the same over HTTP.
func TestHTTPStreamEndsWithItsToken(t *testing.T) {
	idp := oidctest.New(t, oidctest.Settings{Claims: map[string]any{"roles": []string{"op"}}, Lifetime: 3 * time.Second})
	p := secureWith(t, auth.Config{Issuers: []auth.Issuer{
		{URL: idp.URL, Audience: "holdfast", Roles: map[string]string{"op": "operator"}},
	}}, func(*Config) {}, jsonapi.Register)
	c := p.connect(t, kind{name: "streams"})
	c.web.Timeout = 0
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+p.http+"/v1/events:watch", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+idp.Sign("holdfast", nil))
	resp, err := c.web.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body) // until the stream ends
	if err != nil || !strings.Contains(string(b), auth.ReasonTokenExpired) {
		t.Errorf("got %d, %v: %s; want a problem %s", resp.StatusCode, err, b, auth.ReasonTokenExpired)
	}
}
