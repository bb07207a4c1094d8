package gossip

import (
	"context"
	"errors"
	"maps"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/holdfast-metal/holdfast/cluster/internal/wait"
)

// join tries to join at one address. The error is an errForeign if the address belongs to
// another cluster.
func (g *Gossip) join(addr string) error {
	host, port, err := resolve(addr)
	if err != nil {
		return err
	}
	at := net.JoinHostPort(host, strconv.Itoa(port))
	g.mu.Lock()
	delete(g.foreign, at)
	g.mu.Unlock()
	_, err = g.list.Join([]string{addr})
	g.mu.Lock()
	defer g.mu.Unlock()
	if what := g.foreign[at]; err != nil && what != "" {
		return errForeign(what)
	}
	return err
}

// joinAll joins at all addresses at once, because each may take the time limit. It returns the
// error of each address that failed.
func (g *Gossip) joinAll(addrs []string) map[string]error {
	errs := make([]error, len(addrs))
	var wg sync.WaitGroup
	for i, addr := range addrs {
		wg.Go(func() { errs[i] = g.join(addr) })
	}
	wg.Wait()
	failed := map[string]error{}
	for i, addr := range addrs {
		if errs[i] != nil {
			failed[addr] = errs[i]
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.failed = maps.Clone(failed)
	return failed
}

// FailedJoins returns the error of each address that could not be joined at the last try.
func (g *Gossip) FailedJoins() map[string]error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return maps.Clone(g.failed)
}

// errForeign means that an address belongs to another cluster.
type errForeign string

func (e errForeign) Error() string { return string(e) }

// KeepJoined joins the configured peers and rejoins missing ones, because gossip forgets
// peers that were unreachable for long. known returns gossip addresses by peer id. It
// returns an error only if the configured peers belong to another cluster, no other peer is
// known, and serving reports that this peer's own cluster does not work either.
func (g *Gossip) KeepJoined(
	ctx context.Context,
	join []string,
	known func() map[string]string,
	serving func() bool,
	every time.Duration,
) error {
	joined, pause := len(join) == 0, every/50
	for {
		mayStop := !serving() // before the joins, which take time
		missing := g.missing(join, known())
		failed := g.joinAll(missing)
		joined = joined || len(failed) < len(missing)
		for _, addr := range join {
			if foreign, ok := errors.AsType[errForeign](failed[addr]); ok && mayStop && g.alone() {
				return foreign
			}
		}
		if len(failed) > 0 {
			g.log.Debug("joining some peers failed, will retry", "errors", failed, "joined", joined)
		}
		if pause = min(pause*2, every); joined && len(failed) == 0 {
			pause = every
		}
		if !wait.Sleep(ctx, pause) {
			return nil
		}
	}
}

// missing returns the addresses that should be joined but are not.
func (g *Gossip) missing(join []string, known map[string]string) []string {
	alive := map[string]bool{g.at: true}
	for _, m := range g.Peers() {
		if m.Alive {
			alive[m.Addr] = true
			delete(known, m.Meta.GetId())
		}
	}
	var out []string
	add := func(addr string) {
		host, port, err := resolve(addr)
		if err == nil && alive[net.JoinHostPort(host, strconv.Itoa(port))] || slices.Contains(out, addr) {
			return
		}
		out = append(out, addr)
	}
	for _, addr := range join {
		add(addr)
	}
	for _, addr := range known {
		if addr != "" {
			add(addr)
		}
	}
	return out
}

// alone reports whether no other peer is known.
func (g *Gossip) alone() bool {
	return !slices.ContainsFunc(g.Peers(), func(m Member) bool { return m.Meta.GetId() != g.self && m.Alive })
}
