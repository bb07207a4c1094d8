package access

import (
	"context"
	"fmt"
	"iter"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/cluster/call"
	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/internal/filter"
	"github.com/holdfast-metal/holdfast/internal/secrets"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/server/auth"
	"github.com/holdfast-metal/holdfast/server/internal/edge"
	"github.com/holdfast-metal/holdfast/server/internal/page"
	"github.com/holdfast-metal/holdfast/server/internal/request"
)

// MaxTokenTTL is the maximum time to live of a token that expires, in seconds: ten years.
const MaxTokenTTL = 10 * 365 * 24 * 3600

// Tokens implements AccessService (docs/security.md). The gate has already authorized the
// caller; the FSM checks the properties of a token.
type Tokens struct {
	holdfastv1.UnimplementedAccessServiceServer
	*edge.Peer
}

// NewTokens returns the service of a peer.
func NewTokens(peer *edge.Peer) *Tokens { return &Tokens{Peer: peer} }

// WhoAmI returns the identity of the caller.
func (s *Tokens) WhoAmI(ctx context.Context, _ *holdfastv1.WhoAmIRequest) (*holdfastv1.Identity, error) {
	if id := auth.From(ctx); id != nil {
		return id, nil
	}
	return &holdfastv1.Identity{Principal: "anonymous"}, nil
}

// defaultTokenTTL is the time to live of a token for a person or a tool if the request
// sets none. Tokens of agents and services have no such default, because machines do not
// renew them.
const defaultTokenTTL = 90 * 24 * time.Hour

// tokenTTL returns the time to live of a new token, or 0 if it does not expire.
func tokenTTL(r *holdfastv1.CreateTokenRequest) time.Duration {
	switch r.GetRole() {
	case holdfastv1.Role_VIEWER, holdfastv1.Role_OPERATOR, holdfastv1.Role_ADMIN:
		if r.GetTtlSeconds() == 0 && !r.GetNeverExpires() {
			return defaultTokenTTL
		}
	}
	return time.Duration(r.GetTtlSeconds()) * time.Second
}

// CreateToken creates a token and returns its value, which is never shown again. It runs
// on the leader, and the value never enters the log.
func (s *Tokens) CreateToken(
	ctx context.Context, r *holdfastv1.CreateTokenRequest,
) (*holdfastv1.CreateTokenResponse, error) {
	if ttl := r.GetTtlSeconds(); ttl < 0 || ttl > MaxTokenTTL {
		return nil, request.Invalid("ttl_seconds",
			fmt.Sprintf("%d is not 0 (the default of the role) to %d", ttl, MaxTokenTTL))
	}
	if r.GetNeverExpires() && r.GetTtlSeconds() > 0 {
		return nil, request.Invalid("never_expires", "is set, and so is ttl_seconds: set only one of them")
	}
	tok := &holdfastv1.Token{
		Name:      r.GetName(),
		Role:      r.GetRole(),
		Pools:     r.GetPools(),
		MachineId: r.GetMachineId(),
		Comment:   r.GetComment(),

		MaxMachines: r.GetMaxMachines(),
	}
	if err := request.Violations(fsm.ValidateToken(tok)); err != nil {
		return nil, err
	}
	return edge.RetryAborted(func() (*holdfastv1.CreateTokenResponse, error) {
		secret, hash := secrets.TokenOf(call.Secret(ctx, "holdfast token", secrets.TokenBytes))
		tok.TokenId = "tok-" + edge.RandomHex(6)
		if ttl := tokenTTL(r); ttl > 0 {
			tok.ExpiresAt = timestamppb.New(s.Time().Add(ttl).Truncate(time.Second))
		}
		c := auth.Command(ctx)
		c.Op = &internalv1.Command_CreateToken{CreateToken: &internalv1.CreateToken{
			Token: &internalv1.StoredToken{Token: tok, Sha256: hash},
		}}
		made, err := edge.Apply[*holdfastv1.Token](ctx, s.Cluster, c)
		if err != nil {
			return nil, err
		}
		return &holdfastv1.CreateTokenResponse{Token: withState(made, s.Time()), Secret: secret}, nil
	})
}

// ListTokens lists tokens by id.
func (s *Tokens) ListTokens(
	ctx context.Context, r *holdfastv1.ListTokensRequest,
) (*holdfastv1.ListTokensResponse, error) {
	f, err := request.Filter(tokenFilter, r.GetFilter())
	if err != nil {
		return nil, err
	}
	p, v, err := page.Open(ctx, s.Cluster.View, r, "tokens", r.GetFilter())
	if err != nil {
		return nil, err
	}
	rows := page.Keyed(withStates(v.Tokens(p.After), s.Time()), (*holdfastv1.Token).GetTokenId)
	resp := &holdfastv1.ListTokensResponse{}
	resp.Tokens, resp.NextPageToken, err = page.Collect(ctx, p, rows, func(t *holdfastv1.Token) bool {
		return f.Match(t)
	})
	return resp, err
}

// RevokeToken revokes a token.
func (s *Tokens) RevokeToken(ctx context.Context, r *holdfastv1.RevokeTokenRequest) (*holdfastv1.Token, error) {
	if err := request.Required("token_id", r.GetTokenId()); err != nil {
		return nil, err
	}
	if len(r.GetTokenId()) > 64 { // perhaps the token's value: do not repeat it
		return nil, request.Invalid("token_id", "is too long for the id of a token: list the ids with ListTokens")
	}
	c := auth.Command(ctx)
	c.Op = &internalv1.Command_RevokeToken{RevokeToken: &internalv1.RevokeToken{TokenId: r.GetTokenId()}}
	tok, err := edge.Apply[*holdfastv1.Token](ctx, s.Cluster, c)
	if err != nil {
		return nil, err
	}
	return withState(tok, s.Time()), nil
}

// withState returns a copy of a token with its state, which is computed on read.
func withState(t *holdfastv1.Token, now time.Time) *holdfastv1.Token {
	t = proto.CloneOf(t)
	switch err := fsm.TokenGood(t, now); {
	case err == nil:
		t.State = "active"
	case err.Reason == fsm.ReasonTokenRevoked:
		t.State = "revoked"
	default:
		t.State = "expired"
	}
	return t
}

// withStates returns tokens with their states.
func withStates(all iter.Seq[*holdfastv1.Token], now time.Time) iter.Seq[*holdfastv1.Token] {
	return func(yield func(*holdfastv1.Token) bool) {
		for t := range all {
			if !yield(withState(t, now)) {
				return
			}
		}
	}
}

// tokenFilter returns the fields that token filters can use.
func tokenFilter() *filter.Schema {
	return &filter.Schema{
		Message: (*holdfastv1.Token)(nil).ProtoReflect().Descriptor(),
		Aliases: map[string]string{
			"pool": "pools", "revoked": "revoked_at", "expires": "expires_at", "created": "created_at",
		},
		Fixed: []string{
			"token_id", "name", "role", "pools", "machine_id", "created_at", "created_by", "expires_at",
			"bootstrap", "comment",
		},
	}
}
