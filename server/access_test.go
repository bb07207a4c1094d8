package server

import (
	"crypto/sha256"
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/testing/protocmp"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/internal/nodetest"
)

func accessClient(t *testing.T, n *nodetest.Node) holdfastv1.AccessServiceClient {
	t.Helper()
	_, c := serve(t, n, Config{})
	return holdfastv1.NewAccessServiceClient(c.conn)
}

func TestCreateToken(t *testing.T) {
	n := nodetest.New()
	c, ctx := accessClient(t, n), testCtx(t)
	before := time.Now()
	r, err := c.CreateToken(ctx, &holdfastv1.CreateTokenRequest{Name: "ci", Role: holdfastv1.Role_OPERATOR,
		Pools: []string{"a"}, TtlSeconds: 3600, Comment: "for CI"})
	if err != nil {
		t.Fatal(err)
	}
	if raw, err := base64.RawURLEncoding.DecodeString(r.GetSecret()); err != nil || len(raw) != 64 {
		t.Errorf("the value has %d bytes (%v), want 64 in base64url", len(raw), err)
	}
	want := &holdfastv1.Token{Name: "ci", Role: holdfastv1.Role_OPERATOR, Pools: []string{"a"}, Comment: "for CI",
		CreatedBy: "anonymous", State: "active"}
	if diff := cmp.Diff(want, r.GetToken(), protocmp.Transform(),
		protocmp.IgnoreFields(want, "token_id", "created_at", "expires_at")); diff != "" {
		t.Errorf("token (-want +got):\n%s", diff)
	}
	if at := r.GetToken().GetExpiresAt().AsTime(); at.Before(before.Add(59*time.Minute)) ||
		at.After(time.Now().Add(time.Hour)) {
		t.Errorf("it expires at %v, want an hour after %v", at, before)
	}
	sum := sha256.Sum256([]byte(r.GetSecret()))
	if tok, ok := n.Peer.View().TokenByHash(sum[:]); !ok || tok.GetTokenId() != r.GetToken().GetTokenId() {
		t.Errorf("its value opens %v", tok)
	}
	snap, err := n.Peer.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	var state strings.Builder
	if _, err := snap.WriteTo(&state); err != nil || strings.Contains(state.String(), r.GetSecret()) ||
		!strings.Contains(state.String(), r.GetToken().GetTokenId()) {
		t.Errorf("the value is in the state, or the token is not (%v)", err)
	}
	other, err := c.CreateToken(ctx, &holdfastv1.CreateTokenRequest{Name: "ci", Role: holdfastv1.Role_VIEWER})
	if err != nil || other.GetSecret() == r.GetSecret() {
		t.Errorf("another one: %v, %v", other.GetToken(), err)
	}
}

func TestTokensExpireByDefault(t *testing.T) {
	c, ctx := accessClient(t, nodetest.New()), testCtx(t)
	const days = 24 * time.Hour
	for _, tt := range []struct {
		req  *holdfastv1.CreateTokenRequest
		want time.Duration // 0: it does not expire
	}{
		{&holdfastv1.CreateTokenRequest{Role: holdfastv1.Role_VIEWER}, 90 * days},
		{&holdfastv1.CreateTokenRequest{Role: holdfastv1.Role_OPERATOR, Pools: []string{"a"}}, 90 * days},
		{&holdfastv1.CreateTokenRequest{Role: holdfastv1.Role_ADMIN}, 90 * days},
		{&holdfastv1.CreateTokenRequest{Role: holdfastv1.Role_ADMIN, TtlSeconds: 3600}, time.Hour},
		{&holdfastv1.CreateTokenRequest{Role: holdfastv1.Role_ADMIN, NeverExpires: true}, 0},
		{&holdfastv1.CreateTokenRequest{Role: holdfastv1.Role_POOL_AGENT, Pools: []string{"a"}}, 0},
		{&holdfastv1.CreateTokenRequest{Role: holdfastv1.Role_SERVICE}, 0},
	} {
		tt.req.Name = "ci"
		r, err := c.CreateToken(ctx, tt.req)
		if err != nil {
			t.Errorf("%v: %v", tt.req, err)
			continue
		}
		at := r.GetToken().GetExpiresAt()
		if got := time.Until(at.AsTime()); (at == nil) != (tt.want == 0) || at != nil &&
			(got > tt.want || got < tt.want-time.Minute) {
			t.Errorf("%v: expires at %v, want in %s (0: never)", tt.req, at.AsTime(), tt.want)
		}
	}
}

func TestCreateTokenRefuses(t *testing.T) {
	c, ctx := accessClient(t, nodetest.New()), testCtx(t)
	for _, r := range []*holdfastv1.CreateTokenRequest{
		{}, {Name: "ci"}, {Role: holdfastv1.Role_ADMIN}, {Name: "ci", Role: holdfastv1.Role_ADMIN, Pools: []string{"a"}},
		{Name: "ci", Role: holdfastv1.Role_AGENT}, {Name: "ci", Role: holdfastv1.Role_POOL_AGENT}, {Name: "ci",
			Role: holdfastv1.Role_VIEWER, MachineId: "m-1"},
		{Name: "ci", Role: holdfastv1.Role_ADMIN, TtlSeconds: -1}, {Name: "ci", Role: holdfastv1.Role_ADMIN, TtlSeconds: 60,
			NeverExpires: true}, {Name: "ci", Role: holdfastv1.Role_ADMIN, TtlSeconds: 1 << 62},
		{Name: strings.Repeat("x", 65), Role: holdfastv1.Role_ADMIN}, {Name: "ci", Role: 77},
	} {
		_, err := c.CreateToken(ctx, r)
		wantError(t, err, codes.InvalidArgument, "INVALID_FIELD")
	}
}

func TestListAndRevokeTokens(t *testing.T) {
	c, ctx := accessClient(t, nodetest.New()), testCtx(t)
	var ids []string
	for _, r := range []*holdfastv1.CreateTokenRequest{
		{Name: "ops", Role: holdfastv1.Role_OPERATOR, Pools: []string{"a", "b"}}, {Name: "ci", Role: holdfastv1.Role_VIEWER},
		{Name: "m", Role: holdfastv1.Role_AGENT, MachineId: "m-1"},
	} {
		made, err := c.CreateToken(ctx, r)
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, made.GetToken().GetTokenId())
	}
	for range 2 { // again changes nothing
		tok, err := c.RevokeToken(ctx, &holdfastv1.RevokeTokenRequest{TokenId: ids[1]})
		if err != nil || tok.GetState() != "revoked" {
			t.Fatalf("revoke: %v, %v", tok, err)
		}
	}
	for filter, want := range map[string]int{"": 3, "state = active": 2, "state = revoked": 1, "revoked:*": 1,
		"role = OPERATOR": 1, "pool:b": 1, "pool:c": 0,
		"machine_id = m-1": 1, "name = ci OR name = ops": 2} {
		r, err := c.ListTokens(ctx, &holdfastv1.ListTokensRequest{Filter: filter})
		if err != nil || len(r.GetTokens()) != want {
			t.Errorf("filter %q: got %v, %v, want %d", filter, r.GetTokens(), err, want)
		}
	}
	first, err := c.ListTokens(ctx, &holdfastv1.ListTokensRequest{PageSize: 2})
	if err != nil || len(first.GetTokens()) != 2 || first.GetNextPageToken() == "" {
		t.Fatalf("first page: %v, %v", first, err)
	}
	rest, err := c.ListTokens(ctx, &holdfastv1.ListTokensRequest{PageSize: 2, PageToken: first.GetNextPageToken()})
	if err != nil || len(rest.GetTokens()) != 1 || rest.GetNextPageToken() != "" {
		t.Errorf("second page: %v, %v", rest, err)
	}
	_, err = c.ListTokens(ctx, &holdfastv1.ListTokensRequest{Filter: "secret = x"})
	wantError(t, err, codes.InvalidArgument, "INVALID_FIELD")
	_, err = c.RevokeToken(ctx, &holdfastv1.RevokeTokenRequest{})
	wantError(t, err, codes.InvalidArgument, "INVALID_FIELD")
	_, err = c.RevokeToken(ctx, &holdfastv1.RevokeTokenRequest{TokenId: "tok-none"})
	wantError(t, err, codes.NotFound, "TOKEN_NOT_FOUND")
	value := strings.Repeat("v", 86)
	_, err = c.RevokeToken(ctx, &holdfastv1.RevokeTokenRequest{TokenId: value})
	wantError(t, err, codes.InvalidArgument, "INVALID_FIELD")
	if strings.Contains(err.Error(), value) {
		t.Errorf("the error shows the value: %v", err)
	}
}

func TestWhoAmI(t *testing.T) {
	c := accessClient(t, nodetest.New())
	id, err := c.WhoAmI(testCtx(t), &holdfastv1.WhoAmIRequest{})
	if err != nil || id.GetPrincipal() != "anonymous" || id.GetRole() != holdfastv1.Role_ADMIN ||
		id.GetMethod() != "insecure" {
		t.Errorf("got %v, %v", id, err)
	}
}
