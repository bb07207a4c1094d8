// Package hardware connects the kinds of providers to a peer: to its secrets, its inventory, and
// its notes for the next leader. It owns the list of the kinds, and the end of their sessions. It
// must not start an effect by itself.
package hardware

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/holdfast-metal/holdfast/cluster/leader"
	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/internal/secrets"
	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/bmc"
	"github.com/holdfast-metal/holdfast/providers/datacenter"
	"github.com/holdfast-metal/holdfast/providers/fake"
	"github.com/holdfast-metal/holdfast/providers/ironic"
	"github.com/holdfast-metal/holdfast/providers/kube"
	"github.com/holdfast-metal/holdfast/providers/netboot"
	sshexec "github.com/holdfast-metal/holdfast/providers/ssh"
)

// Secrets opens secrets by name.
type Secrets interface {
	Resolve(ctx context.Context, name string) (secrets.Secret, error)
}

// Notes stores facts that the next leader needs (notes.Devices).
type Notes interface {
	Get(key string) []byte
	Put(ctx context.Context, key string, value []byte) error
	PutSoon(key string, value []byte) // may be lost at a change of the leader
	PutFirst(ctx context.Context, key string, value []byte) error
}

// Inventory is the peer's own state.
type Inventory interface {
	View() *fsm.View
}

// Config contains the parts of a peer that providers work with. To check a configuration of
// providers, Log is enough.
type Config struct {
	Secrets    Secrets
	Notes      Notes
	Inventory  Inventory
	Installs   Installs
	Now        func() time.Time // the cluster's time. Default time.Now
	Log        *slog.Logger
	Registerer prometheus.Registerer // nil: no metrics
	SkipFiles  bool                  // read no file: the configuration is checked, not used
}

// Hardware creates the providers of a peer.
type Hardware struct {
	secrets   Secrets
	notes     Notes
	inventory Inventory
	installs  Installs
	log       *slog.Logger
	metrics   *metrics // nil for none
	calls     calls

	bmcs    []*bmc.Provider
	hosts   []*sshexec.Provider
	ironics []*ironic.Provider
	joiners []*kube.Joiner
	now     func() time.Time
	skip    bool // no file is read

	over chan struct{} // a term has ended
}

// New returns a Hardware without providers.
func New(c Config) *Hardware {
	if c.Now == nil {
		c.Now = time.Now
	}
	h := &Hardware{secrets: c.Secrets, notes: c.Notes, inventory: c.Inventory, installs: c.Installs, log: c.Log,
		now: c.Now, skip: c.SkipFiles, over: make(chan struct{}, 1)}
	if c.Registerer != nil {
		h.metrics = newMetrics(c.Registerer)
	}
	return h
}

// Factories returns the provider kinds that a configuration may name.
func (h *Hardware) Factories() map[string]providers.Factory {
	return map[string]providers.Factory{
		"fake":       fake.Factory,
		"cloudbmc":   h.cloudBMC,
		"ssh":        h.ssh,
		"datacenter": h.datacenter,
		"ironic":     h.ironic,
	}
}

func (h *Hardware) cloudBMC(name string, raw json.RawMessage, log *slog.Logger) (providers.Provider, error) {
	own, media, err := takeMedia(raw)
	if err != nil {
		return nil, err
	}
	p, err := h.newBMC(name, own, log)
	if err != nil {
		return nil, err
	}
	if media == nil {
		return cloudBMC{p}, nil
	}
	i, err := h.newMediumImager(media, p)
	if err != nil {
		return nil, fmt.Errorf("media: %w", err)
	}
	return installingCloudBMC{cloudBMC{p}, i}, nil
}

// cloudBMC is the provider of machines of which only the BMC is reachable.
type cloudBMC struct{ *bmc.Provider }

// Kind implements providers.Provider.
func (cloudBMC) Kind() string { return "cloudbmc" }

// installingCloudBMC also installs machines, by virtual media. Its configuration names the peers
// that the BMCs can reach.
type installingCloudBMC struct {
	cloudBMC
	*netboot.MediumImager
}

func (h *Hardware) ssh(_ string, raw json.RawMessage, log *slog.Logger) (providers.Provider, error) {
	p, err := h.newHost(raw, log)
	if err != nil {
		return nil, err
	}
	return host{p, h.newJoiner(p)}, nil
}

// host is the provider of machines of which only the host is reachable.
type host struct {
	*sshexec.Provider
	*kube.Joiner
}

// newJoiner returns a provider that joins hosts to registered clusters.
func (h *Hardware) newJoiner(p *sshexec.Provider) *kube.Joiner {
	j := kube.New(clusters{h}, p)
	h.joiners = append(h.joiners, j)
	return j
}

func (h *Hardware) datacenter(name string, raw json.RawMessage, log *slog.Logger) (providers.Provider, error) {
	var halves struct {
		BMC     json.RawMessage `json:"bmc"`
		SSH     json.RawMessage `json:"ssh"`
		Netboot json.RawMessage `json:"netboot"`
	}
	if err := strict(raw, &halves); err != nil {
		return nil, err
	}
	b, err := h.newBMC(name, halves.BMC, log)
	if err != nil {
		return nil, fmt.Errorf("bmc: %w", err)
	}
	s, err := h.newHost(halves.SSH, log)
	if err != nil {
		return nil, fmt.Errorf("ssh: %w", err)
	}
	i, err := h.newImager(halves.Netboot, b, s)
	if err != nil {
		return nil, fmt.Errorf("netboot: %w", err)
	}
	return datacenter.New(b, s, h.newJoiner(s), i), nil
}

func (h *Hardware) ironic(_ string, raw json.RawMessage, log *slog.Logger) (providers.Provider, error) {
	cfg, err := ironic.ParseConfig(raw)
	if err != nil {
		return nil, err
	}
	p, err := ironic.New(cfg, ironic.Deps{Credentials: ironicLogins{h}, Log: log, SkipFiles: h.skip})
	if err != nil {
		return nil, err
	}
	h.ironics = append(h.ironics, p)
	return p, nil
}

func (h *Hardware) newBMC(name string, raw json.RawMessage, log *slog.Logger) (*bmc.Provider, error) {
	cfg, err := bmc.ParseConfig(raw)
	if err != nil {
		return nil, err
	}
	called := func(c bmc.Call) { h.count(name, c) }
	p, err := bmc.New(cfg, bmc.Deps{Credentials: accounts{h}, Memory: memory{h}, Log: log, Called: called,
		Now: h.now, SkipFiles: h.skip})
	if err == nil {
		h.bmcs = append(h.bmcs, p)
	}
	return p, err
}

func (h *Hardware) newHost(raw json.RawMessage, log *slog.Logger) (*sshexec.Provider, error) {
	cfg, err := sshexec.ParseConfig(raw)
	if err != nil {
		return nil, err
	}
	p, err := sshexec.New(cfg, logins{h}, hostKeys{h}, log)
	if err == nil {
		h.hosts = append(h.hosts, p)
	}
	return p, err
}

// releaseTime bounds the time to close BMC sessions after a term.
const releaseTime = 30 * time.Second

// Run is the leader task that prepares the providers for a term: they read the notes of the last
// leader, and forget those of an earlier term of this peer. After the term Serve closes the
// sessions, because another peer may lead. Run does not wait for that, since it would delay a
// handover.
func (h *Hardware) Run(ctx context.Context, _ leader.Term) error {
	for _, p := range h.bmcs {
		p.Recall()
	}
	<-ctx.Done()
	select {
	case h.over <- struct{}{}:
	default:
	}
	return nil
}

// Serve closes unused sessions, and all sessions after each term and when ctx ends.
func (h *Hardware) Serve(ctx context.Context) error {
	var g errgroup.Group
	for _, p := range h.bmcs {
		g.Go(func() error {
			if err := p.Run(ctx); err != nil {
				h.log.Warn("cannot end all BMC sessions", "error", err)
			}
			return nil
		})
	}
	g.Go(func() error {
		for {
			select {
			case <-h.over:
				h.release(ctx)
			case <-ctx.Done():
				return nil
			}
		}
	})
	err := g.Wait()
	for _, p := range h.hosts {
		err = errors.Join(err, p.Close())
	}
	for _, p := range h.ironics {
		p.Close()
	}
	for _, j := range h.joiners {
		j.Close()
	}
	return err
}

func (h *Hardware) release(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, releaseTime)
	defer cancel()
	var wg sync.WaitGroup
	for _, p := range h.bmcs {
		wg.Go(func() {
			if err := p.Release(ctx); err != nil {
				h.log.Warn("cannot end all BMC sessions after the term", "error", err)
			}
		})
	}
	wg.Wait()
}
