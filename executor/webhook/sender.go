// Package webhook posts events to the URLs of webhooks, at least once and in order. Each
// event is a CloudEvent with a signature that the receiver can check (docs/events.md).
//
// It owns the messages and their signatures, and the leader task that posts them. It must not
// control access to webhooks, and it keeps no state of its own: the position of each webhook is
// replicated.
package webhook

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast-metal/holdfast/cluster/leader"
	"github.com/holdfast-metal/holdfast/executor/task"
	"github.com/holdfast-metal/holdfast/internal/secrets"
	"github.com/holdfast-metal/holdfast/internal/wait"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Secrets resolves secrets by name (*secrets.Resolver).
type Secrets interface {
	Resolve(ctx context.Context, name string) (secrets.Secret, error)
}

// Config configures a Sender.
type Config struct {
	Timeout    time.Duration // of one attempt; default 10 s
	FirstRetry time.Duration // delay after the first failed attempt; it doubles with each failure; default 1 s
	LastRetry  time.Duration // maximum delay; default 5 min
	NoteEvery  time.Duration // minimum time between two records of the position, if there are no failures; default 1 s
	ReadEvery  time.Duration // minimum time between two reads of the webhooks; default 250 ms
	Transport  http.RoundTripper
	RefuseOpen bool // post nothing that is not encrypted and signed
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// Sender is the leader task that posts events.
type Sender struct {
	cfg     Config
	node    task.Proposer
	state   task.State
	secrets Secrets
	client  *http.Client
	tries   *prometheus.CounterVec
}

// NewSender returns a Sender. Run is called in each term.
func NewSender(cfg Config, node task.Proposer, state task.State, secrets Secrets) *Sender {
	cfg.Timeout = cmp.Or(cfg.Timeout, 10*time.Second)
	cfg.FirstRetry = cmp.Or(cfg.FirstRetry, time.Second)
	cfg.LastRetry = cmp.Or(cfg.LastRetry, 5*time.Minute)
	cfg.NoteEvery = cmp.Or(cfg.NoteEvery, time.Second)
	cfg.ReadEvery = cmp.Or(cfg.ReadEvery, 250*time.Millisecond)
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	tries := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "holdfast_webhook_tries_total",
		Help: "Messages that this peer posted to webhooks, by outcome (delivered, failed).",
	}, []string{"webhook", "outcome"})
	s := &Sender{cfg: cfg, node: node, state: state, secrets: secrets, tries: tries}
	s.client = &http.Client{
		Transport:     cfg.Transport,
		Timeout:       cfg.Timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	if cfg.Registerer != nil {
		cfg.Registerer.MustRegister(s.tries)
	}
	return s
}

// Run implements leader.Task. Each enabled webhook is served by its own goroutine,
// so that a receiver that does not respond delays no other.
func (s *Sender) Run(ctx context.Context, t leader.Term) error {
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
			if ok && p.current(w) {
				return false
			}
			p.stop()
			<-p.done // the next post starts from its recorded position
			return true
		})
		for name := range want {
			if running[name] == nil {
				p := s.start(ctx, t, name)
				running[name] = p
				all.Go(p.run)
			}
		}
		if nextChange(ctx, s.cfg.ReadEvery, changed) != nil {
			return nil
		}
	}
}

// sameHook reports whether the settings of two webhooks are equal. Their positions are
// ignored.
func sameHook(a, b *holdfastv1.Webhook) bool {
	return a.GetUrl() == b.GetUrl() && a.GetFilter() == b.GetFilter() && a.GetSecretRef() == b.GetSecretRef() &&
		a.GetCreatedAt().AsTime().Equal(b.GetCreatedAt().AsTime())
}

// nextChange blocks until the next change, and for at least a time. It returns the error of ctx if
// that ends first.
func nextChange(ctx context.Context, least time.Duration, changed <-chan struct{}) error {
	began := time.Now()
	select {
	case <-changed:
		return wait.Sleep(ctx, least-time.Since(began))
	case <-ctx.Done():
		return ctx.Err()
	}
}
