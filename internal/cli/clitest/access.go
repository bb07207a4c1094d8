package clitest

import (
	"cmp"
	"context"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/internal/cli/app"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

func fixtureTokens() []*holdfastv1.Token {
	return []*holdfastv1.Token{
		{TokenId: "tok-1", Name: "bootstrap", Role: holdfastv1.Role_ADMIN, State: "revoked", RevokedAt: Ago(time.Hour),
			CreatedAt: Ago(48 * time.Hour), CreatedBy: "system", Bootstrap: true},
		{TokenId: "tok-2", Name: "ci", Role: holdfastv1.Role_OPERATOR, Pools: []string{"cpu", "gpu"}, State: "active",
			ExpiresAt: Ago(-24 * time.Hour), CreatedAt: Ago(time.Hour), CreatedBy: "token:bootstrap", Comment: "for CI"},
		{TokenId: "tok-3", Name: "m-1", Role: holdfastv1.Role_AGENT, MachineId: "m-1", State: "expired",
			ExpiresAt: Ago(time.Minute), CreatedAt: Ago(2 * time.Hour), CreatedBy: "user:alice"},
		{TokenId: "tok-4", Name: "gpu-agents", Role: holdfastv1.Role_POOL_AGENT, Pools: []string{"gpu"}, State: "active",
			CreatedAt: Ago(2 * time.Hour), CreatedBy: "user:alice"},
	}
}

// FixtureTrail returns a valid chain of five events.
func FixtureTrail() []*holdfastv1.AuditEvent {
	events := []*holdfastv1.AuditEvent{
		{Method: "holdfast.v1.AccessService/CreateToken", Resource: "tokens/tok-2", Principal: "token:bootstrap",
			TokenId: "tok-1"},
		{Method: "holdfast.v1.MachineService/RegisterMachine", Resource: "machines/m-123", Principal: "user:alice"},
		{Method: "holdfast.v1.RunService/StartRun", Resource: "machines/m-123/runs/run-789", Principal: "token:ci",
			TokenId: "tok-2", RequestId: "req-456"},
		{Method: "holdfast.v1.SecretService/PutSecret", Principal: "token:ci", TokenId: "tok-2",
			Outcome: "PERMISSION_DENIED", Reason: "ROLE"},
		{Method: "holdfast.v1.RunService/StartRun", Source: "192.0.2.7", Outcome: "UNAUTHENTICATED",
			Reason: "TOKEN_UNKNOWN", Count: 4711},
	}
	var last []byte
	for i, e := range events {
		e.Sequence, e.At, e.Index, e.PreviousHash = uint64(i+1), Ago(time.Duration(10-i)*time.Minute), uint64(100+i), last
		e.Source, e.Peer, e.Outcome, e.Count = cmp.Or(e.GetSource(), "10.0.0.9"), "peer-1", cmp.Or(e.GetOutcome(),
			"OK"), max(1, e.GetCount())
		e.Hash = holdfastv1.AuditHash(e)
		last = e.GetHash()
	}
	return events
}

func (f *Cluster) WhoAmI(context.Context, *holdfastv1.WhoAmIRequest) (*holdfastv1.Identity, error) {
	return &holdfastv1.Identity{Principal: "token:ci", Role: holdfastv1.Role_OPERATOR, Pools: []string{"cpu", "gpu"},
		TokenId: "tok-2", Method: "token"}, nil
}

func (f *Cluster) CreateToken(
	_ context.Context, r *holdfastv1.CreateTokenRequest,
) (*holdfastv1.CreateTokenResponse, error) {
	tok := &holdfastv1.Token{TokenId: "tok-9", Name: r.GetName(), Role: r.GetRole(), Pools: r.GetPools(),
		MachineId: r.GetMachineId(), State: "active"}
	if r.GetTtlSeconds() > 0 {
		tok.ExpiresAt = Ago(-time.Duration(r.GetTtlSeconds()) * time.Second)
	}
	return &holdfastv1.CreateTokenResponse{Token: tok, Secret: "the-value"}, nil
}

func (f *Cluster) ListTokens(
	_ context.Context, r *holdfastv1.ListTokensRequest,
) (*holdfastv1.ListTokensResponse, error) {
	items, next := page(f.Tokens, (*holdfastv1.Token).GetTokenId, r.GetPageSize(), r.GetPageToken())
	return &holdfastv1.ListTokensResponse{Tokens: items, NextPageToken: next}, nil
}

func (f *Cluster) RevokeToken(_ context.Context, r *holdfastv1.RevokeTokenRequest) (*holdfastv1.Token, error) {
	t := &holdfastv1.Token{TokenId: r.GetTokenId()}
	for _, known := range f.Tokens {
		if known.GetTokenId() == r.GetTokenId() {
			t = proto.CloneOf(known)
		}
	}
	t.State = "revoked"
	return t, nil
}

// Newest returns the trail as it is listed.
func (f *Cluster) Newest() []*holdfastv1.AuditEvent {
	events := slices.Clone(f.Trail)
	slices.Reverse(events)
	return events
}

func (f *Cluster) ListAuditEvents(
	_ context.Context, r *holdfastv1.ListAuditEventsRequest,
) (*holdfastv1.ListAuditEventsResponse, error) {
	items, next := page(f.Newest(), func(e *holdfastv1.AuditEvent) string { return app.Number(e.GetSequence()) },
		r.GetPageSize(), r.GetPageToken())
	return &holdfastv1.ListAuditEventsResponse{Events: items, NextPageToken: next}, nil
}

func (f *Cluster) ExportAuditEvents(
	r *holdfastv1.ExportAuditEventsRequest, s grpc.ServerStreamingServer[holdfastv1.AuditEvent],
) error {
	if err := f.take(s.Context(), r); err != nil {
		return err
	}
	for _, e := range f.Trail {
		if e.GetSequence() < r.GetFromSequence() {
			continue
		}
		if err := s.Send(e); err != nil {
			return err
		}
	}
	return f.rest(s.Context())
}

func (f *Cluster) GetIssuers(
	context.Context, *holdfastv1.GetIssuersRequest,
) (*holdfastv1.GetIssuersResponse, error) {
	return &holdfastv1.GetIssuersResponse{Issuers: f.Issuers}, nil
}
