// Package bootstrap is the leader task that creates the first token of a cluster, for an admin, and
// prints it once. The token must not reach a log.
package bootstrap

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/cluster/leader"
	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/internal/secrets"
	"github.com/holdfast-metal/holdfast/internal/wait"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// Node commits commands and serves reads (*cluster.Peer).
type Node interface {
	Apply(ctx context.Context, cmd *internalv1.Command) (fsm.Result, error)
	View(ctx context.Context) (*fsm.View, error)
}

// Task creates the first token. It runs only if authentication is on.
type Task struct {
	node Node
	out  io.Writer
}

// New returns the task. It prints the token to out, which must not be a log.
func New(node Node, out io.Writer) *Task { return &Task{node: node, out: out} }

var _ leader.Task = (*Task)(nil)

// ttl is how long the first token is valid. If it expires unused, an admin can
// still use a client certificate.
const ttl = 7 * 24 * time.Hour

const (
	// pause is the time between two attempts.
	pause = time.Second
	// patience is how long the task waits until a majority's clocks have confirmed the time. After
	// that it believes the leader's, because a cluster with wrong clocks needs an admin too.
	patience = 15 * time.Second
	poll     = 50 * time.Millisecond
)

// Run implements leader.Task.
func (b *Task) Run(ctx context.Context, _ leader.Term) error {
	secret, hash := secrets.NewToken() // shared by all attempts: one with an unknown outcome may still commit
	for {
		done, err := b.try(ctx, secret, hash)
		if done {
			return err
		}
		if _, refused := errors.AsType[*fsm.Error](err); refused && ctx.Err() == nil {
			return fmt.Errorf("create the bootstrap token: %w", err)
		}
		if wait.Sleep(ctx, pause) != nil {
			return nil
		}
	}
}

// try creates the token unless the cluster has one, and prints it after the commit. It is done,
// with or without an error, once the cluster has a token.
func (b *Task) try(ctx context.Context, secret string, hash []byte) (done bool, err error) {
	v, err := b.node.View(ctx)
	if err != nil {
		return false, err
	}
	if _, made := v.TokenByHash(hash); made { // by an earlier attempt whose outcome was unknown
		return true, b.show(secret)
	}
	if v.Meta().GetBootstrapped() {
		return true, nil
	}
	if v, err = b.dated(ctx, v); err != nil {
		return false, err
	}
	var id [6]byte
	_, _ = rand.Read(id[:]) // never fails
	_, err = b.node.Apply(ctx, &internalv1.Command{
		Principal: "system",
		Op: &internalv1.Command_CreateToken{CreateToken: &internalv1.CreateToken{Token: &internalv1.StoredToken{
			Sha256: hash,
			Token: &holdfastv1.Token{
				TokenId:   fmt.Sprintf("tok-%x", id),
				Name:      "bootstrap",
				Role:      holdfastv1.Role_ADMIN,
				Bootstrap: true,
				CreatedBy: "system",
				Comment:   "the first token of the cluster",
				ExpiresAt: timestamppb.New(v.Now().Add(ttl).Truncate(time.Second)),
			},
		}}},
	})
	if err != nil {
		return false, err
	}
	return true, b.show(secret)
}

// dated returns a view whose time is confirmed: that of the first leader's host alone may be wrong
// by years, and would date the token and its end.
func (b *Task) dated(ctx context.Context, v *fsm.View) (*fsm.View, error) {
	for began := time.Now(); !v.Meta().GetClock().GetCompared() && time.Since(began) < patience; {
		err := wait.Sleep(ctx, poll)
		if err == nil {
			v, err = b.node.View(ctx)
		}
		if err != nil {
			return nil, err
		}
	}
	return v, nil
}

func (b *Task) show(secret string) error {
	_, err := fmt.Fprintf(b.out, "bootstrap token: %s\nThis is shown once and expires in 7 days. "+
		"Set HOLDFAST_TOKEN to it, create tokens for users with `holdfast token create`, "+
		"then revoke it with `holdfast token revoke`.\n", secret)
	if err != nil {
		return fmt.Errorf("print the bootstrap token: %w: it cannot be shown again, "+
			"so create a token with the client certificate of an admin", err)
	}
	return nil
}
