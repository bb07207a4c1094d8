package auth

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/cluster"
	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// secretBytes is the length of tokens before they are spelled in base64url (docs/clients.md, 000).
const secretBytes = 64

// NewSecret returns the value of a token, and the hash that is kept of it.
func NewSecret() (secret string, hash []byte) {
	b := make([]byte, secretBytes)
	_, _ = rand.Read(b) // never fails: see crypto/rand
	secret = base64.RawURLEncoding.EncodeToString(b)
	return secret, sum(secret)
}

// Proposer commits commands and serves reads (*cluster.Node).
type Proposer interface {
	Apply(ctx context.Context, cmd *internalv1.Command) (fsm.Result, error)
	View(ctx context.Context) (*fsm.View, error)
}

// Bootstrap is the leader task that makes the first token of a cluster, for an admin, and shows it
// once. It runs where authentication is on.
type Bootstrap struct {
	node Proposer
	out  io.Writer
}

// NewBootstrap returns the task. Out is where the operator looks: never a log.
func NewBootstrap(node Proposer, out io.Writer) *Bootstrap { return &Bootstrap{node: node, out: out} }

var _ cluster.LeaderTask = (*Bootstrap)(nil)

// bootstrapTTL is how long the first token is valid. A client certificate of an admin gets in after
// that.
const bootstrapTTL = 7 * 24 * time.Hour

// bootstrapPause is between two tries.
const bootstrapPause = time.Second

// Run implements cluster.LeaderTask.
func (b *Bootstrap) Run(ctx context.Context, _ cluster.Term) error {
	secret, hash := NewSecret() // one for all tries: an outcome that was not known may turn up
	for {
		done, err := b.try(ctx, secret, hash)
		if done {
			return nil
		}
		if err != nil && ctx.Err() == nil && !retryable(err) {
			return fmt.Errorf("make the bootstrap token: %w", err)
		}
		t := time.NewTimer(bootstrapPause)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return nil
		}
	}
}

// retryable reports whether another try may do better.
func retryable(err error) bool {
	_, refused := errors.AsType[*fsm.Error](err)
	return !refused
}

// try makes the token unless there is one, and shows it when it is recorded.
func (b *Bootstrap) try(ctx context.Context, secret string, hash []byte) (done bool, err error) {
	v, err := b.node.View(ctx)
	if err != nil {
		return false, err
	}
	if _, made := v.TokenByHash(hash); made { // by a try whose outcome was not known
		return true, b.show(secret)
	}
	if v.Meta().GetBootstrapped() {
		return true, nil
	}
	now := timestamppb.Now()
	_, err = b.node.Apply(ctx, &internalv1.Command{
		FeatureLevel: 1, Time: now, Principal: "system",
		Op: &internalv1.Command_CreateToken{CreateToken: &internalv1.CreateToken{Token: &internalv1.StoredToken{
			Sha256: hash,
			Token: &holdfastv1.Token{
				TokenId: "tok-" + randomHex(6), Name: "bootstrap", Role: holdfastv1.Role_ADMIN, Bootstrap: true, CreatedBy: "system",
				Comment: "the first token of the cluster", ExpiresAt: timestamppb.New(now.AsTime().Add(bootstrapTTL).Truncate(time.Second)),
			},
		}}},
	})
	if err != nil {
		return false, err
	}
	return true, b.show(secret)
}

func (b *Bootstrap) show(secret string) error {
	_, err := fmt.Fprintf(b.out, "bootstrap token: %s\nThis is shown once and expires in 7 days. Set HOLDFAST_TOKEN to it, make tokens for people with `holdfast token create`, then revoke it with `holdfast token revoke`.\n", secret)
	return err
}

func randomHex(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b)
	return hex.EncodeToString(b)
}
