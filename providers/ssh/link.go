package sshexec

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/guard"
)

// maxSessions bounds the sessions of one connection: sshd allows 10.
const maxSessions = 4

// link is a connection to a host, shared by the calls to that host. It is closed after it has been
// unused for a while.
type link struct {
	client *ssh.Client
	to     target
	via    *link // connection to the jump host, held while this one is open
	born   time.Time
	slots  chan struct{}
	done   chan struct{} // closed with the connection

	mu      sync.Mutex
	idle    []*shell
	users   int
	used    time.Time
	retired bool // not handed out any more; the last user closes it
}

// target identifies a link: the host and the login.
type target struct {
	host    string // as HostKeys names it
	address string
	ref     string // of the secret
	common  bool   // the secret is the provider's, for all machines that name none
}

// dial connects and logs in. The link has one user. ctx bounds the whole call.
func (p *Provider) dial(ctx context.Context, to target, via *link) (*link, error) {
	op := "connect to " + to.host + " at " + to.address
	login, err := p.credentials.Login(ctx, to.ref)
	if err != nil {
		return nil, classify(op, fmt.Errorf("read secret %q: %w", to.ref, err), providers.Auth)
	}
	if err := p.refusals.allow(to, login); err != nil {
		return nil, err
	}
	methods, err := login.methods(time.Now(), to.common)
	if err != nil {
		return nil, providers.Errorf(providers.Auth, op, "secret %q: %w", to.ref, err)
	}
	keeper, err := newGatekeeper(ctx, p.keys, to.host, to.address, p.cfg.HostKeys)
	if err != nil {
		return nil, classify(op, err, providers.Transient)
	}
	begun := time.Now()
	conn, err := dialTCP(ctx, to.address, via)
	if err != nil {
		return nil, classify(op, err, providers.Transient)
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() }) // a handshake has no context
	cc, chans, reqs, err := ssh.NewClientConn(conn, to.address, &ssh.ClientConfig{
		User:              login.user(),
		Auth:              methods,
		ClientVersion:     "SSH-2.0-holdfast",
		HostKeyAlgorithms: keeper.algorithms(),
		HostKeyCallback:   func(_ string, _ net.Addr, key ssh.PublicKey) error { return keeper.check(key) },
	})
	if !stop() && err == nil {
		_ = cc.Close()
		err = ctx.Err()
	}
	if err != nil {
		_ = conn.Close()
		switch {
		case ctx.Err() != nil:
			return nil, classify(op, ctx.Err(), providers.Timeout)
		case keeper.refused != nil:
			return nil, providers.Errorf(providers.Auth, op, "%w", keeper.refused)
		case strings.Contains(err.Error(), "unable to authenticate"):
			p.refusals.count(to, login)
			return nil, providers.Errorf(providers.Auth, op, "the host refuses user %s: %w", login.user(), err)
		}
		return nil, providers.Errorf(providers.Transient, op, "%w", err)
	}
	p.refusals.clear(to)
	client := ssh.NewClient(cc, chans, reqs)
	if err := keeper.pin(ctx, p.keys); err != nil {
		_ = client.Close()
		return nil, classify(op, err, providers.Transient)
	}
	l := &link{
		client: client,
		to:     to,
		via:    via,
		born:   begun,
		used:   time.Now(),
		users:  1,
		slots:  make(chan struct{}, maxSessions),
		done:   make(chan struct{}),
	}
	p.pool.add(l)
	p.watching.Go(func() {
		_ = client.Wait()
		p.pool.remove(l)
		close(l.done)
	})
	p.watching.Go(func() { l.watch(p.cfg) })
	return l, nil
}

func dialTCP(ctx context.Context, address string, via *link) (net.Conn, error) {
	if via == nil {
		return guard.Dial(0)(ctx, "tcp", address)
	}
	return via.client.DialContext(ctx, "tcp", address)
}

// watch sends heartbeats. It closes a connection that does not answer them, or that is unused. It
// ends with the connection.
func (l *link) watch(cfg Config) {
	tick := time.NewTicker(min(time.Duration(cfg.KeepAlive), time.Duration(cfg.Idle)))
	defer tick.Stop()
	for {
		select {
		case <-l.done:
			if l.via != nil {
				l.via.release()
			}
			return
		case <-tick.C:
		}
		if l.unused(time.Duration(cfg.Idle)) {
			l.retire()
			continue
		}
		dead := time.AfterFunc(time.Duration(cfg.DeadAfter), func() { _ = l.client.Close() })
		_, _, err := l.client.SendRequest("keepalive@openssh.com", true, nil)
		dead.Stop()
		if err != nil {
			_ = l.client.Close()
		}
	}
}

func (l *link) unused(idle time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.users == 0 && time.Since(l.used) >= idle
}

// take adds a user, unless the connection must not be used any more.
func (l *link) take(maxAge time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.retired || l.closed() || time.Since(l.born) >= maxAge {
		return false
	}
	l.users++
	return true
}

func (l *link) release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.users--
	l.used = time.Now()
	if l.retired && l.users == 0 {
		_ = l.client.Close()
	}
}

// retire stops handing out the connection. It is closed when the last user releases it.
func (l *link) retire() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.retired = true
	if l.users == 0 {
		_ = l.client.Close()
	}
}

func (l *link) closed() bool {
	select {
	case <-l.done:
		return true
	default:
		return false
	}
}

// pool holds the connections of a provider.
type pool struct {
	mu      sync.Mutex
	links   map[target]*link   // the open connection to share
	open    map[*link]struct{} // all that are not closed
	dialing map[target]chan struct{}
	closed  bool
}

func (p *pool) add(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open[l] = struct{}{}
	if p.closed {
		_ = l.client.Close()
	}
}

func (p *pool) remove(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.open, l)
	if p.links[l.to] == l {
		delete(p.links, l.to)
	}
}

var errClosed = errors.New("provider is closed")

// link returns the connection to a target. If there is none, it opens one, and fresh is true. The
// caller must release it.
func (p *Provider) link(ctx context.Context, to target, jumps []Jump) (l *link, fresh bool, err error) {
	for {
		p.pool.mu.Lock()
		if p.pool.closed {
			p.pool.mu.Unlock()
			return nil, false, providers.Errorf(providers.Transient, "connect to "+to.host, "%w", errClosed)
		}
		if l := p.pool.links[to]; l != nil {
			if l.take(time.Duration(p.cfg.MaxAge)) {
				p.pool.mu.Unlock()
				return l, false, nil
			}
			delete(p.pool.links, to)
			p.pool.mu.Unlock()
			l.retire()
			continue
		}
		if other := p.pool.dialing[to]; other != nil {
			p.pool.mu.Unlock()
			select {
			case <-other:
				continue
			case <-ctx.Done():
				return nil, false, classify("connect to "+to.host+" at "+to.address, ctx.Err(), providers.Timeout)
			}
		}
		mine := make(chan struct{})
		p.pool.dialing[to] = mine
		p.pool.mu.Unlock()

		l, err := p.dialVia(ctx, to, jumps)
		p.pool.mu.Lock()
		delete(p.pool.dialing, to)
		close(mine)
		if err == nil {
			if _, open := p.pool.open[l]; open { // if not, it was closed already
				p.pool.links[to] = l
			}
		}
		p.pool.mu.Unlock()
		return l, true, err
	}
}

func (p *Provider) dialVia(ctx context.Context, to target, jumps []Jump) (*link, error) {
	if len(jumps) == 0 {
		return p.dial(ctx, to, nil)
	}
	if !strings.HasPrefix(to.host, jumpHost("")) { // jump hosts are in the configuration
		if err := p.cfg.checkBehind(to.address); err != nil {
			return nil, providers.Errorf(providers.Unsupported, "connect to "+to.host, "%w", err)
		}
	}
	last := jumps[len(jumps)-1]
	address, err := parseEndpoint(last.Endpoint)
	if err != nil {
		return nil, providers.Errorf(providers.Unsupported, "connect to "+to.host, "jump host: %w", err)
	}
	ref := cmp.Or(last.CredentialsRef, p.cfg.CredentialsRef)
	via, _, err := p.link(ctx, target{host: jumpHost(address), address: address, ref: ref}, jumps[:len(jumps)-1])
	if err != nil {
		return nil, err
	}
	l, err := p.dial(ctx, to, via)
	if err != nil {
		via.release() // otherwise it is released with the link
	}
	return l, err
}

// forget makes the next call to a target open a new connection.
func (p *Provider) forget(to target) {
	p.pool.mu.Lock()
	l := p.pool.links[to]
	delete(p.pool.links, to)
	p.pool.mu.Unlock()
	if l != nil {
		l.retire()
	}
}

// Close ends all connections and waits for their goroutines. Commands on hosts continue.
func (p *Provider) Close() error {
	p.pool.mu.Lock()
	p.pool.closed = true
	for l := range p.pool.open {
		_ = l.client.Close()
	}
	p.pool.mu.Unlock()
	p.watching.Wait()
	return nil
}
