package harness

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-metal/holdfast/internal/wait"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Token is a token created for a fault.
type Token struct{ ID, Secret string }

// revoked are tokens that must never be accepted again.
type revoked struct {
	mu   sync.Mutex
	last []Token
}

const remembered = 3 // tokens that are tried after each fault

// NewToken returns an operator's token.
func (c *Cluster) NewToken(ctx context.Context, name string) (Token, error) {
	res, err := c.probe.Access().CreateToken(ctx,
		&holdfastv1.CreateTokenRequest{Name: name, Role: holdfastv1.Role_OPERATOR})
	if err != nil {
		return Token{}, fmt.Errorf("create a token: %w", err)
	}
	return Token{ID: res.GetToken().GetTokenId(), Secret: res.GetSecret()}, nil
}

// Revoke revokes a token. From its return on no peer may accept it: every Healthy tries it
// again on all peers, whatever faults there were meanwhile.
func (c *Cluster) Revoke(ctx context.Context, t Token) error {
	if _, err := c.probe.Access().RevokeToken(ctx, &holdfastv1.RevokeTokenRequest{TokenId: t.ID}); err != nil {
		return fmt.Errorf("revoke a token: %w", err)
	}
	c.revoked.mu.Lock()
	defer c.revoked.mu.Unlock()
	c.revoked.last = append(c.revoked.last, t)
	c.revoked.last = c.revoked.last[max(0, len(c.revoked.last)-remembered):]
	return nil
}

// ErrAccepted means that a token was accepted after its revocation.
var ErrAccepted = errors.New("a token was accepted after its revocation was acknowledged")

// stillRevoked tries the revoked tokens on all peers.
func (c *Cluster) stillRevoked(ctx context.Context) error {
	c.revoked.mu.Lock()
	tokens := c.revoked.last
	c.revoked.mu.Unlock()
	for _, t := range tokens {
		for _, p := range c.Peers() {
			k, err := c.Caller(p, t.Secret)
			if err != nil {
				return err
			}
			err = k.Refused(ctx)
			k.Close()
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// Refused blocks until the peer refuses the caller's token for a linearizable read and for
// a write. Other responses prove nothing: without a leader the peer cannot know.
func (k *Caller) Refused(ctx context.Context) error {
	for _, call := range []struct {
		what string
		do   func(context.Context) (uint64, error)
	}{{"linearizable read", k.Read}, {"write", k.Write}} {
		for {
			_, err := call.do(ctx)
			if err == nil {
				return fmt.Errorf("%w: peer %s, %s", ErrAccepted, k.Peer.ID, call.what)
			}
			if status.Code(err) == codes.Unauthenticated {
				break
			}
			if werr := wait.Sleep(ctx, 50*time.Millisecond); werr != nil {
				return fmt.Errorf("peer %s neither accepts nor refuses a revoked token: %w", k.Peer.ID, err)
			}
		}
	}
	return nil
}
