package issuer

import (
	"context"
	"crypto/sha256"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/cluster/leader"
	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/internal/secrets"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/server/auth"
)

// lab has a real state, gate and issuer, without consensus.
type lab struct {
	rate float64 // auth.Config.RatePerSecond of the gate
	*fsm.FSM
	t     testing.TB
	file  string
	keys  *secrets.Keyring
	gate  *auth.Gate
	mu    sync.Mutex
	index uint64
}

func newLab(t testing.TB) *lab {
	line, err := secrets.NewKeyLine("k1")
	if err != nil {
		t.Fatal(err)
	}
	l := &lab{FSM: fsm.New(), t: t, file: filepath.Join(t.TempDir(), "keys")}
	if err := os.WriteFile(l.file, []byte(line), 0o600); err != nil {
		t.Fatal(err)
	}
	if l.keys, err = secrets.Open(l.file, nil); err != nil {
		t.Fatal(err)
	}
	l.must(&internalv1.Command{
		Op: &internalv1.Command_LeaderEstablished{LeaderEstablished: &internalv1.LeaderEstablished{PeerId: "p1", Term: 1}}})
	l.gate = l.newGate()
	return l
}

// newGate returns the gate of another peer.
func (l *lab) newGate() *auth.Gate {
	g, err := auth.New(auth.Config{PeerID: "p1", RatePerSecond: l.rate}, auth.Deps{
		Records: func() auth.Records { return l.View() },
		Fresh:   func(context.Context) (auth.Records, error) { return l.View(), nil },
		Report:  func(context.Context, *internalv1.RecordDenials) error { return nil },
	})
	if err != nil {
		l.t.Fatal(err)
	}
	return g
}

// Apply implements Proposer.
func (l *lab) Apply(_ context.Context, c *internalv1.Command) (fsm.Result, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c.FeatureLevel = 1
	if c.GetTime() == nil {
		c.Time = timestamppb.Now()
	}
	if c.GetPrincipal() == "" {
		c.Principal = "tester"
	}
	b, err := proto.Marshal(&internalv1.Entry{Commands: []*internalv1.Command{c}})
	if err != nil {
		return fsm.Result{}, err
	}
	l.index++
	r := l.FSM.Apply(l.index, 1, b)[0]
	if r.Err != nil {
		return r, r.Err
	}
	return r, nil
}

func (l *lab) must(c *internalv1.Command) {
	l.t.Helper()
	if _, err := l.Apply(l.t.Context(), c); err != nil {
		l.t.Fatal(err)
	}
}

// client creates a token and returns its id and value.
func (l *lab) client(id string, role holdfastv1.Role_Value) (string, string) {
	l.t.Helper()
	secret, _ := secrets.NewToken()
	sum := sha256.Sum256([]byte(secret))
	l.must(&internalv1.Command{
		Op: &internalv1.Command_CreateToken{CreateToken: &internalv1.CreateToken{Token: &internalv1.StoredToken{
			Token: &holdfastv1.Token{TokenId: id, Name: id, Role: role}, Sha256: sum[:]}}}})
	return id, secret
}

// rotator returns the leader task; turn runs it at a given time.
func (l *lab) rotator(period time.Duration) *Rotator {
	return NewRotator(period, l, l, l.keys, time.Now, nil)
}

func (l *lab) turn(r *Rotator, now time.Time) {
	l.t.Helper()
	var lost time.Time
	if err := r.turn(l.t.Context(), leader.NewTerm(1, nil), now, &lost); err != nil {
		l.t.Fatal(err)
	}
}

// serve starts a peer's HTTPS listener with the issuer and a route for services.
func (l *lab) serve(url string) (*httptest.Server, *Issuer) {
	l.t.Helper()
	gate := l.newGate()
	i, err := New(Config{URL: url}, l, l.keys, gate)
	if err != nil {
		l.t.Fatal(err)
	}
	m := gate.NewMux()
	i.Routes(m)
	m.HandleFunc("GET /protected", auth.Rule{Also: []holdfastv1.Role_Value{holdfastv1.Role_SERVICE}}, nil,
		func(w http.ResponseWriter, r *http.Request) {
			_, _ = w.Write([]byte(auth.From(r.Context()).GetPrincipal()))
		})
	s := httptest.NewTLSServer(m)
	l.t.Cleanup(s.Close)
	return s, i
}
