package bmc

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/bmc/internal/access"
	"github.com/holdfast-metal/holdfast/providers/bmc/internal/bmclib"
	"github.com/holdfast-metal/holdfast/providers/bmc/internal/ipmi"
	"github.com/holdfast-metal/holdfast/providers/bmc/internal/redfish"
	"github.com/holdfast-metal/holdfast/providers/bmc/vendor"
)

// device is one BMC with the state that all operations on it share, with any account.
type device struct {
	gate    *access.Gate
	effects chan struct{} // held by the one operation that changes something

	mu       sync.Mutex
	powerEnd time.Time // time by which the last press must have shown
	pressing int       // presses under way
	console  bool      // the console is open
	reset    time.Time // last reset by this process
}

// controller is one BMC with one account, and the state of operations with that account. Sessions
// and refused logins of one account must not affect a machine with another account at the same
// address.
type controller struct {
	*device
	p       *Provider
	key     string // in Memory
	bmc     access.BMC
	breaker *gobreaker.CircuitBreaker[struct{}]
	redfish *redfish.Client

	saving chan struct{} // held by the one save under way

	loading sync.Mutex
	loaded  bool

	state            sync.Mutex
	machine          providers.Machine // the machine whose account is used
	memo             Memo
	kept             Memo      // last value in Memory
	driver           Protocol  // that worked, in this process
	probed           time.Time // last probe for Redfish, if the driver is IPMI
	silence          int       // consecutive unanswered operations
	opened           int       // times that the breaker has opened since it was closed
	acceptsButSilent bool      // the last unanswered operation had a connection, so the network is fine
	hosts            map[string]*redfish.Host
	ipmi             map[string]*ipmi.Host
	vendors          map[Protocol]*bmclib.Host
}

// keyOf returns the key of a machine's BMC and account. Machines with the same key share sessions.
func keyOf(m providers.Machine, e endpoint) string {
	if ref := m.GetSpec().GetBmcCredentialsRef(); ref != "" {
		return e.key() + "#" + ref
	}
	return e.key()
}

// find returns the endpoint of a machine's BMC and its controller, with the stored state loaded.
func (p *Provider) find(ctx context.Context, m providers.Machine, what string) (endpoint, *controller, error) {
	e, err := parseEndpoint(m.GetSpec().GetBmcEndpoint(), p.cfg.AllowHTTP)
	if err != nil {
		return e, nil, providers.Errorf(providers.Unsupported, what, "%w", err)
	}
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return e, nil, access.Classify(what, access.ErrClosed, false)
	}
	key := keyOf(m, e)
	c := p.bmcs[key]
	if c == nil {
		if p.devices[e.key()] == nil {
			p.devices[e.key()] = &device{gate: access.NewGate(), effects: make(chan struct{}, 1)}
		}
		c = p.newController(e, key, p.devices[e.key()])
		p.bmcs[key] = c
	}
	p.mu.Unlock()
	if err := c.load(ctx); err != nil {
		return e, nil, err
	}
	c.use(m)
	return e, c, nil
}

// known returns the endpoint of a machine's BMC, and its controller, or nil before the first
// operation on it.
func (p *Provider) known(m providers.Machine) (e endpoint, c *controller, err error) {
	if e, err = parseEndpoint(m.GetSpec().GetBmcEndpoint(), p.cfg.AllowHTTP); err != nil {
		return e, nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return e, p.bmcs[keyOf(m, e)], nil
}

// use makes c use the account of a machine. It resets the count of refused logins if an operator
// has asked for a retry (RetryBmc).
func (c *controller) use(m providers.Machine) {
	retry := m.GetStatus().GetBmcRetryAt()
	c.state.Lock()
	c.machine = m
	forgive := false
	if retry != nil {
		at := retry.AsTime().Format(time.RFC3339Nano)
		forgive = c.memo.Retried != at
		c.memo.Retried = at
	}
	c.state.Unlock()
	if forgive {
		c.bmc.Logins.Forgive() // calls back with its own lock held
	}
}

func (p *Provider) newController(e endpoint, key string, at *device) *controller {
	c := &controller{
		device:  at,
		p:       p,
		key:     key,
		saving:  make(chan struct{}, 1),
		hosts:   map[string]*redfish.Host{},
		ipmi:    map[string]*ipmi.Host{},
		vendors: map[Protocol]*bmclib.Host{},
	}
	c.breaker = c.newBreaker()
	c.bmc = access.BMC{Gate: at.gate, Account: c.account}
	c.bmc.Logins = access.NewLogins(func(n int, version string) {
		c.state.Lock()
		defer c.state.Unlock()
		c.memo.Refused, c.memo.RefusedWith = n, version
	})
	c.redfish = redfish.New(redfish.Config{
		BMC:     c.bmc,
		Base:    e.redfish,
		HTTP:    newHTTP(p.tls),
		Timeout: p.cfg.RequestTime,
		Verify:  p.cfg.Settle,
		Record:  record{c},
		Now:     p.now,
	})
	return c
}

// load reads the stored state of the BMC before the first operation.
func (c *controller) load(ctx context.Context) error {
	c.loading.Lock()
	defer c.loading.Unlock()
	if c.loaded {
		return nil
	}
	memo, err := c.p.memory.Recall(ctx, c.key)
	if err != nil {
		return providers.Errorf(providers.Transient, "load the state of BMC "+c.key, "%w", err)
	}
	c.state.Lock()
	if own := c.memo; !own.equal(c.kept) {
		c.memo = memo.with(own)
	} else {
		c.memo = memo
	}
	if path := c.redfish.CarryOn(memo.Session); path != "" { // a session left open by our last term
		former := c.memo.debt()
		if memo.Session != "" {
			former.Paths = append(former.Paths, memo.Session)
		}
		c.memo.Session = path
		c.memo.owes(former)
	}
	c.loaded, c.kept = true, memo
	refused, with := c.memo.Refused, c.memo.RefusedWith
	c.state.Unlock()
	c.bmc.Logins.Recall(refused, with) // calls back with its own lock held
	return nil
}

// invalidate makes the next operation load the state again: another peer may have led in between.
func (c *controller) invalidate() {
	c.loading.Lock()
	defer c.loading.Unlock()
	c.loaded = false
}

// account returns the current account of the BMC.
func (c *controller) account(ctx context.Context) (Account, error) {
	c.state.Lock()
	m := c.machine
	c.state.Unlock()
	a, err := c.p.credentials.Account(ctx, m)
	if err != nil {
		return a, access.Classify("read the BMC credentials of "+m.GetMachineId(), access.Answered(err), false)
	}
	return a, nil
}

// exclusive blocks until no other operation changes anything through this BMC.
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

// redfishOf returns the Redfish driver of a machine.
func (c *controller) redfishOf(m providers.Machine, e endpoint) *redfish.Host {
	c.state.Lock()
	defer c.state.Unlock()
	id := e.system + " " + m.GetSpec().GetSerial()
	h := c.hosts[id]
	if h == nil {
		h = c.redfish.Host(e.system, m.GetSpec().GetSerial())
		c.hosts[id] = h
	}
	return h
}

// ipmiOf returns the IPMI driver of a machine.
func (c *controller) ipmiOf(m providers.Machine, e endpoint) *ipmi.Host {
	c.state.Lock()
	defer c.state.Unlock()
	suite := cmp.Or(m.GetLabels()[CipherLabel], c.p.cfg.CipherSuite)
	h := c.ipmi[suite]
	if h == nil {
		h = ipmi.New(ipmi.Config{
			BMC:         c.bmc,
			Host:        e.host,
			Port:        cmp.Or(e.ipmi, c.p.cfg.IPMIPort),
			CipherSuite: suite,
			Tool:        c.p.cfg.Ipmitool,
			CommandTime: c.p.cfg.CommandTime,
			Gap:         c.p.cfg.IPMIGap,
		})
		c.ipmi[suite] = h
	}
	return h
}

// vendorOf returns the machine's driver of bmclib.
func (c *controller) vendorOf(p Protocol, e endpoint) *bmclib.Host {
	c.state.Lock()
	defer c.state.Unlock()
	h := c.vendors[p]
	if h == nil {
		h = bmclib.New(bmclib.Config{
			BMC:    c.bmc,
			Driver: p.vendor(),
			Time:   c.p.cfg.RequestTime,
			Reach: vendor.Config{
				Host:         e.host,
				Port:         e.port,
				HTTP:         newHTTP(c.p.tls),
				RPCURL:       c.p.cfg.RPCURL,
				IpmitoolPath: c.p.cfg.Ipmitool,
				CipherSuite:  c.p.cfg.CipherSuite,
			},
		})
		c.vendors[p] = h
	}
	return h
}
