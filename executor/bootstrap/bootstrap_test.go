package bootstrap

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/cluster/leader"
	"github.com/holdfast-metal/holdfast/executor/executortest"
	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/providers/fake"
)

// node is the cluster of a Lab. The outcome of its first command is unknown.
type node struct {
	*executortest.Lab
	lost  error
	tries int
	taken bool // the command with an unknown outcome was committed
}

func (n *node) View(context.Context) (*fsm.View, error) { return n.FSM.View(), nil }

func (n *node) Apply(ctx context.Context, c *internalv1.Command) (fsm.Result, error) {
	if n.tries++; n.tries > 1 {
		return n.Lab.Apply(ctx, c)
	}
	if n.taken {
		n.Must(c)
	}
	return fsm.Result{}, n.lost
}

// The token is created and printed once, for an admin and for a week. That holds for each leader,
// and if the outcome of a command is unknown.
func TestFirstToken(t *testing.T) {
	for _, taken := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			n := &node{Lab: executortest.New(t, fake.Config{}), lost: errors.New("leader was killed"), taken: taken}
			var out bytes.Buffer
			for range 3 { // of three leaders
				if err := New(n, &out).Run(t.Context(), leader.Term{}); err != nil {
					t.Fatal(err)
				}
			}
			first, rest, _ := strings.Cut(out.String(), "\n")
			secret, ok := strings.CutPrefix(first, "bootstrap token: ")
			if !ok || len(secret) != 86 || strings.Contains(rest, "bootstrap token") || strings.Contains(rest, secret) ||
				strings.Count(rest, "\n") != 1 {
				t.Fatalf("got %q, want the token once", out.String())
			}
			hash := sha256.Sum256([]byte(secret))
			stored, ok := n.FSM.View().TokenByHash(hash[:])
			if !ok {
				t.Fatal("got another token in the state than the printed one")
			}
			if stored.GetRole() != holdfastv1.Role_ADMIN || !stored.GetBootstrap() {
				t.Errorf("got %v, want an admin's bootstrap token", stored)
			}
			if got := stored.GetExpiresAt().AsTime().Sub(stored.GetCreatedAt().AsTime()); (got - ttl).Abs() > time.Minute {
				t.Errorf("got a token valid for %s, want %s", got, ttl)
			}
			all := 0
			for range n.FSM.View().Tokens("") {
				all++
			}
			if all != 1 {
				t.Errorf("got %d tokens, want 1", all)
			}
		})
	}
}

// closed is an output that was closed.
type closed struct{}

func (closed) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

// A token that could not be printed is an error, because nobody can sign in with it.
func TestTokenIsNotPrinted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &node{Lab: executortest.New(t, fake.Config{}), lost: errors.New("leader was killed")}
		if err := New(n, closed{}).Run(t.Context(), leader.Term{}); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("got %v, want %v", err, io.ErrClosedPipe)
		}
	})
}

// A command that the state refuses is an error, which ends the term.
func TestRefusedToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &node{Lab: executortest.New(t, fake.Config{}), lost: &fsm.Error{Code: fsm.FailedPrecondition, Reason: "X"}}
		var out bytes.Buffer
		if err := New(n, &out).Run(t.Context(), leader.Term{}); !errors.Is(err, n.lost) || out.Len() > 0 {
			t.Errorf("got %v and %q, want %v and nothing", err, out.String(), n.lost)
		}
	})
}

// first is the first leader of a new state; its host has a clock that is a year ahead.
type first struct {
	t     *testing.T
	state *fsm.FSM
	mu    sync.Mutex
	index uint64
}

const wrong = 365 * 24 * time.Hour

func (l *first) View(context.Context) (*fsm.View, error) { return l.state.View(), nil }

func (l *first) Apply(_ context.Context, c *internalv1.Command) (fsm.Result, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.index++
	c.FeatureLevel, c.Epoch, c.UptimeMs = 1, 1, int64(l.index)
	c.Time = timestamppb.Now()
	data, err := proto.Marshal(&internalv1.Entry{Commands: []*internalv1.Command{c}})
	if err != nil {
		l.t.Fatal(err)
	}
	r := l.state.Apply(l.index, 1, data)[0]
	if r.Err != nil {
		return r, r.Err
	}
	return r, nil
}

// TestTimeOfTheToken checks that the clock of the first leader's host dates no token: the task
// waits until the clocks were compared, and not for ever.
func TestTimeOfTheToken(t *testing.T) {
	for _, tt := range []struct {
		name     string
		compared time.Duration // 0: never
		want     time.Duration // end of the token, compared with the host's clock
	}{
		{"clocks are compared", 3 * time.Second, ttl - wrong},
		{"no clocks agree", 0, ttl},
	} {
		synctest.Test(t, func(t *testing.T) {
			l := &first{t: t, state: fsm.New()}
			must := func(c *internalv1.Command) {
				if _, err := l.Apply(t.Context(), c); err != nil {
					t.Error(err)
				}
			}
			must(&internalv1.Command{Op: &internalv1.Command_LeaderEstablished{
				LeaderEstablished: &internalv1.LeaderEstablished{PeerId: "n1", Term: 1}}})
			begin := time.Now()
			if tt.compared > 0 {
				go func() {
					time.Sleep(tt.compared) // sleep: in the bubble
					must(&internalv1.Command{Op: &internalv1.Command_CompareClocks{CompareClocks: &internalv1.CompareClocks{
						Voters: 1, Readings: []*internalv1.ClockReading{
							{PeerId: "n1", At: timestamppb.New(time.Now().Add(-wrong))}}}}})
				}()
			}
			var out bytes.Buffer
			if err := New(l, &out).Run(t.Context(), leader.Term{}); err != nil {
				t.Fatal(err)
			}
			for tok := range l.state.View().Tokens("") {
				if got := tok.GetExpiresAt().AsTime().Sub(begin); (got - tt.want).Abs() > time.Minute {
					t.Errorf("%s: got an end after %s, want %s", tt.name, got, tt.want)
				}
			}
			if !strings.HasPrefix(out.String(), "bootstrap token: ") || time.Since(begin) > patience+pause {
				t.Errorf("%s: got %q after %s, want a token", tt.name, out.String(), time.Since(begin))
			}
		})
	}
}
