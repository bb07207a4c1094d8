package bmc

import (
	"context"
	"sync"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/holdfast-metal/holdfast/providers"
)

// place is one BMC, with everything that all operations on it share, whichever account they go by.
type place struct {
	at      string // its address with the scheme
	gate    *gate
	effects chan struct{} // held by the one operation that changes something

	mu       sync.Mutex
	powerEnd time.Time // when what was pressed last has surely shown
	pressing int       // presses under way
	console  bool      // somebody has it open
	reset    time.Time // last, in this process
}

// controller is one BMC by one account, with everything that operations by it share. What one
// account has opened, or what was refused to it, must not serve a machine that names another one at
// the same address.
type controller struct {
	*place
	p       *Provider
	key     string // in Memory
	refused *logins
	breaker *gobreaker.CircuitBreaker[struct{}]
	redfish *redfishClient

	recalling sync.Mutex
	recalled  bool

	state   sync.Mutex
	machine providers.Machine // whose account it is
	memo    Memo
	kept    Memo      // as Memory has it
	driver  Protocol  // that worked, in this process
	looked  time.Time // for Redfish, where the driver is IPMI
	silence int       // operations in a row without an answer
	opened  int       // times that the breaker has opened since it was closed
	deaf    bool      // when it last did not answer it had taken a connection: the network to it is not what is wrong
	hosts   map[string]*redfishHost
	ipmi    map[string]*ipmiHost
	vendors map[Protocol]*vendorHost
}

// keyOf names the BMC of a machine with the account that it is used by: what has the same one
// shares sessions.
func keyOf(m providers.Machine, e endpoint) string {
	if ref := m.GetSpec().GetBmcCredentialsRef(); ref != "" {
		return e.key() + "#" + ref
	}
	return e.key()
}

// controllerOf returns the BMC of a machine.
func (p *Provider) controllerOf(ctx context.Context, m providers.Machine, e endpoint) (*controller, error) {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil, errClosed
	}
	key := keyOf(m, e)
	c := p.bmcs[key]
	if c == nil {
		if p.places[e.key()] == nil {
			p.places[e.key()] = &place{at: e.key(), gate: newGate(), effects: make(chan struct{}, 1)}
		}
		c = p.newController(e, key, p.places[e.key()])
		p.bmcs[key] = c
	}
	p.mu.Unlock()
	c.state.Lock()
	c.machine = m
	c.state.Unlock()
	if err := c.recall(ctx); err != nil {
		return c, err
	}
	c.heedRetry(m)
	return c, nil
}

// heedRetry allows logins again if an operator has asked for it since (RetryBmc).
func (c *controller) heedRetry(m providers.Machine) {
	if m.GetStatus().GetBmcRetryAt() == nil {
		return
	}
	at := m.GetStatus().GetBmcRetryAt().AsTime().Format(time.RFC3339Nano)
	c.state.Lock()
	known := c.memo.Retried == at
	c.memo.Retried = at
	c.state.Unlock()
	if !known {
		c.refused.forgive()
	}
}

func (p *Provider) newController(e endpoint, key string, at *place) *controller {
	c := &controller{place: at, p: p, key: key,
		hosts: map[string]*redfishHost{}, ipmi: map[string]*ipmiHost{}, vendors: map[Protocol]*vendorHost{}}
	c.breaker = c.newBreaker()
	c.refused = &logins{changed: func(n int, version string) {
		c.state.Lock()
		defer c.state.Unlock()
		c.memo.Refused, c.memo.RefusedWith = n, version
	}}
	c.redfish = &redfishClient{base: e.redfish, http: newHTTP(p.tls), gate: c.gate, timeout: p.cfg.RequestTime, verify: p.cfg.Settle, login: loginDeps{
		account: c.account, refused: c.refused,
		begin: func(ctx context.Context) error {
			c.state.Lock()
			c.memo.LoggingIn = true
			c.state.Unlock()
			if err := c.recorded(ctx); err != nil {
				return providers.Errorf(providers.Transient, "note that a login begins at BMC "+c.key, "%w", err)
			}
			return nil
		},
		begun: func() bool {
			c.state.Lock()
			defer c.state.Unlock()
			return c.memo.LoggingIn
		},
		noted: func(ctx context.Context, path string, more bool) {
			c.state.Lock()
			c.memo.Session, c.memo.LoggingIn = path, more
			c.state.Unlock()
			c.remember(ctx)
		},
		ended: func(ctx context.Context, path string) {
			c.state.Lock()
			if c.memo.Session == path {
				c.memo.Session = ""
			}
			c.state.Unlock()
			c.remember(ctx)
		},
		former: func() string {
			c.state.Lock()
			defer c.state.Unlock()
			return c.memo.Session
		},
		quirks: func() Quirks { return quirksOf(c.redfish.vendor()) },
	}}
	return c
}

// recall reads what is remembered of the BMC, before the first operation.
func (c *controller) recall(ctx context.Context) error {
	c.recalling.Lock()
	defer c.recalling.Unlock()
	if c.recalled {
		return nil
	}
	memo, err := c.p.memory.Recall(ctx, c.key)
	if err == nil && memo == (Memo{}) {
		// What was noted before notes were of one account. Whose login was refused stands in it,
		// and the path of a session opens nothing.
		memo, err = c.p.memory.Recall(ctx, c.at)
	}
	if err != nil {
		return providers.Errorf(providers.Transient, "recall BMC "+c.key, "%w", err)
	}
	c.state.Lock()
	if own := c.memo; own != c.kept {
		c.memo = memo.with(own)
	} else {
		c.memo = memo
	}
	if path := c.redfish.carryOn(memo.Session); path != "" { // what could not be ended when our last term was over
		c.memo.Session, c.memo.LoggingIn = path, true
	}
	c.recalled, c.kept = true, memo
	refused, with := c.memo.Refused, c.memo.RefusedWith
	c.state.Unlock()
	c.refused.recall(refused, with) // which calls back with its own lock held
	return nil
}

// forget makes the next operation recall what is remembered: another peer may have led since.
func (c *controller) forget() {
	c.recalling.Lock()
	defer c.recalling.Unlock()
	c.recalled = false
}

// vendor returns what the service root says of its maker.
func (c *redfishClient) vendor() (vendor, product string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.root == nil {
		return "", ""
	}
	return first(c.root.Vendor, c.root.Product), c.root.Product
}

// account finds the account of the BMC now.
func (c *controller) account(ctx context.Context) (Account, error) {
	c.state.Lock()
	m := c.machine
	c.state.Unlock()
	a, err := c.p.credentials.Account(ctx, m)
	if err != nil {
		return a, classify("find the account of the BMC of "+m.GetMachineId(), &answered{err}, false)
	}
	return a, nil
}

// remember writes down what has changed. What cannot be written is tried again after the next
// operation.
func (c *controller) remember(ctx context.Context) {
	if err := c.recorded(ctx); err != nil {
		c.p.log.Warn("could not remember what was learned of a BMC", "bmc", c.key, "error", err)
	}
}

// recorded writes down what has changed.
func (c *controller) recorded(ctx context.Context) error {
	c.state.Lock()
	memo := c.memo
	changed := memo != c.kept
	c.state.Unlock()
	if !changed {
		return nil
	}
	if err := c.p.memory.Remember(ctx, c.key, memo); err != nil {
		return err
	}
	c.state.Lock()
	defer c.state.Unlock()
	c.kept = memo
	return nil
}

// exclusive waits until nobody else changes anything through this BMC.
func (c *controller) exclusive(ctx context.Context) (leave func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	select {
	case c.effects <- struct{}{}:
		return func() { <-c.effects }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// redfishOf returns the machine's place behind the Redfish service.
func (c *controller) redfishOf(m providers.Machine, e endpoint) *redfishHost {
	c.state.Lock()
	defer c.state.Unlock()
	id := e.system + " " + m.GetSpec().GetSerial()
	h := c.hosts[id]
	if h == nil {
		h = &redfishHost{c: c.redfish, system: e.system, serial: m.GetSpec().GetSerial()}
		c.hosts[id] = h
	}
	return h
}

// ipmiOf returns the machine's place behind IPMI.
func (c *controller) ipmiOf(m providers.Machine, e endpoint) *ipmiHost {
	c.state.Lock()
	defer c.state.Unlock()
	suite := first(m.GetLabels()[CipherLabel], c.p.cfg.CipherSuite)
	h := c.ipmi[suite]
	if h == nil {
		h = &ipmiHost{cfg: c.p.cfg, host: e.host, port: first(e.ipmi, c.p.cfg.IPMIPort), suite: suite, gate: c.gate, account: c.account, refused: c.refused}
		c.ipmi[suite] = h
	}
	return h
}
