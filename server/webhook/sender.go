package webhook

import (
	"context"
	"log/slog"
	"maps"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast-metal/holdfast/cluster"
	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/internal/secrets"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// Proposer commits commands (*cluster.Node).
type Proposer interface {
	Apply(ctx context.Context, cmd *internalv1.Command) (fsm.Result, error)
}

// State is this peer's own copy of the replicated state (*fsm.FSM).
type State interface {
	View() *fsm.View
	Changed() <-chan struct{} // closed at the next change
}

// Secrets opens secrets by name (*secrets.Resolver).
type Secrets interface {
	Resolve(ctx context.Context, name string) (secrets.Secret, error)
}

// Config says how messages are sent.
type Config struct {
	Timeout    time.Duration // of one try. Default 10 s
	FirstRetry time.Duration // after the first try that failed; the pauses double. Default 1 s
	LastRetry  time.Duration // they do not get longer than this. Default 5 min
	NoteEvery  time.Duration // least time between two records of how far a webhook is, while all goes well. Default 1 s
	LookEvery  time.Duration // least time between two looks at which webhooks there are. Default 250 ms
	Transport  http.RoundTripper
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// Sender is the leader task that posts events.
type Sender struct {
	cfg     Config
	node    Proposer
	state   State
	secrets Secrets
	client  *http.Client
	tries   *prometheus.CounterVec
}

// NewSender returns a Sender; Run it in each term.
func NewSender(cfg Config, node Proposer, state State, secrets Secrets) *Sender {
	for d, otherwise := range map[*time.Duration]time.Duration{
		&cfg.Timeout: 10 * time.Second, &cfg.FirstRetry: time.Second, &cfg.LastRetry: 5 * time.Minute, &cfg.NoteEvery: time.Second, &cfg.LookEvery: 250 * time.Millisecond,
	} {
		if *d == 0 {
			*d = otherwise
		}
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Sender{cfg: cfg, node: node, state: state, secrets: secrets, tries: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "holdfast_webhook_tries_total", Help: "Messages that this peer has posted to webhooks, by whether the receiver took them (delivered) or not (failed).",
	}, []string{"webhook", "outcome"})}
	s.client = &http.Client{Transport: cfg.Transport, Timeout: cfg.Timeout, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	if cfg.Registerer != nil {
		cfg.Registerer.MustRegister(s.tries)
	}
	return s
}

// Run implements cluster.LeaderTask: it tells each enabled webhook on its own, so that one that
// does not answer holds up no other.
func (s *Sender) Run(ctx context.Context, t cluster.Term) error {
	var all sync.WaitGroup
	running := map[string]*post{}
	defer all.Wait()
	for {
		changed := s.state.Changed()
		want := map[string]*holdfastv1.Webhook{}
		for w := range s.state.View().Webhooks("") {
			if !w.GetDisabled() {
				want[w.GetName()] = w
			}
		}
		maps.DeleteFunc(running, func(name string, p *post) bool {
			w, ok := want[name]
			if ok && p.tells(w) {
				return false
			}
			p.stop()
			<-p.done // what it has recorded is what the next one begins with
			return true
		})
		for name := range want {
			if running[name] == nil {
				p := s.start(ctx, t, name)
				running[name] = p
				all.Go(p.run)
			}
		}
		if wait(ctx, s.cfg.LookEvery, changed) != nil {
			return nil
		}
	}
}

// sameHook reports whether nobody has changed a webhook: how far it is does not count.
func sameHook(a, b *holdfastv1.Webhook) bool {
	return a.GetUrl() == b.GetUrl() && a.GetFilter() == b.GetFilter() && a.GetSecretRef() == b.GetSecretRef() &&
		a.GetCreatedAt().AsTime().Equal(b.GetCreatedAt().AsTime())
}

// wait returns after the next change, and not before a pause is over.
func wait(ctx context.Context, least time.Duration, changed <-chan struct{}) error {
	timer := time.NewTimer(least)
	defer timer.Stop()
	select {
	case <-changed:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
