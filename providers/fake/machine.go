package fake

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/holdfast-metal/holdfast/providers"
)

// machine is one machine. What will happen to it by itself stands in pending, and is
// played when somebody looks.
type machine struct {
	id    string
	fleet *Fleet

	mu      sync.Mutex
	born    time.Time
	pending []event // by time

	calls        map[string]*calls
	authFailures int
	changing     int // effects on the BMC or the disk that are under way
	overlaps     int // how often such an effect came while another was under way
	late         int // effects that were refused because their not-after time had passed

	power  bool // what a BMC shows
	target bool // what power will be when the presses so far have worked
	life   int  // changes whenever the host goes down, so that events of an older life can tell
	up     bool // the host answers
	boots  int
	bootID string // of the host that is up, else empty
	state  string // CamelCase, why the host is up or not
	image  string // on the disk; empty if nothing there boots

	next  *providers.BootDevice // for one boot
	boot  providers.BootDevice
	media string

	care // of the BMC

	console     []byte
	consoleBase int64 // offset of its first byte
	commands    map[string]*command
	installs    map[string]*install
	current     *install // the one that is running
	joins       map[string]*join
	cluster     string // the cluster that the host is in
	net         *network
	nets        map[string]bool // tokens seen
}

// event is something that happens to a machine by itself.
type event struct {
	at    time.Time
	press bool // of a power button
	play  func(at time.Time)
}

// calls counts the calls of one operation.
type calls struct {
	total  int
	change uint64 // the change of faults that since counts from
	since  int
}

func newMachine(id string, f *Fleet) *machine {
	m := &machine{
		id: id, fleet: f, born: f.config.Now(), calls: make(map[string]*calls),
		power: true, target: true, image: "factory", boot: providers.BootDevice{Mode: "DISK", Persistent: true},
	}
	m.note(m.born, "OK", "Event Logging Disabled", "Log area reset/cleared")
	m.booted()
	return m
}

// arrive notes a call and says what the faults make of it. One that comes too late is not taken.
func (m *machine) arrive(o operation, r request) (strike, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.fleet.config.Now()
	if err := m.tooLate(o, r, now); err != nil {
		return strike{}, err
	}
	set := m.fleet.faults.Load().of(m.id)
	c := m.calls[o.name]
	if c == nil {
		c = &calls{}
		m.calls[o.name] = c
	}
	if c.change != set.change {
		c.change, c.since = set.change, 0
	}
	c.total++
	c.since++
	if o.exclusive {
		if m.changing > 0 {
			m.overlaps++
		}
		m.changing++
	}
	since := set.since
	if m.born.After(since) {
		since = m.born
	}
	return set.decide(m.fleet.config.Seed, m.id, o, c.since, now.Sub(since)), nil
}

func (m *machine) leave(o operation) {
	if o.exclusive {
		m.mu.Lock()
		m.changing--
		m.mu.Unlock()
	}
}

func (m *machine) refuse() {
	m.mu.Lock()
	m.authFailures++
	m.mu.Unlock()
}

// run does the operation on the machine as it is now.
func (m *machine) run(o operation, s strike, r request) (any, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.fleet.config.Now()
	m.advance(now)
	// One step with the effect, under the lock: who looks at the machine after the not-after time
	// sees all that there will ever be of it. How long the hardware takes to act is not the
	// sender's fault.
	if err := m.tooLate(o, r, now.Add(-s.latency)); err != nil {
		return nil, err
	}
	if o.bmc && now.Before(m.backAt) {
		return nil, providers.Errorf(providers.Transient, o.name+" of "+m.id, "BMC does not answer: it restarts")
	}
	if up, why := m.reachable(); o.host && !up {
		return nil, providers.Errorf(providers.Transient, o.name+" of "+m.id, "host does not answer: %s", why)
	}
	return o.run(&call{machine: m, now: now, op: r.op(), strike: s}, r.Args)
}

// tooLate refuses an effect whose not-after time has passed at some time. The lock is held.
func (m *machine) tooLate(o operation, r request, at time.Time) error {
	if !o.effect || r.notAfter.IsZero() || at.Before(r.notAfter) {
		return nil
	}
	m.late++
	return providers.Errorf(providers.Late, o.name+" of "+m.id, "refused: it came %s too late, from the leader of epoch %d", at.Sub(r.notAfter), r.Epoch)
}

// advance plays what has happened by itself until now.
func (m *machine) advance(now time.Time) {
	for len(m.pending) > 0 && !m.pending[0].at.After(now) {
		e := m.pending[0]
		m.pending = m.pending[1:]
		e.play(e.at)
	}
}

// later plans an event. Those of one moment are played in the order they were planned.
func (m *machine) later(at time.Time, press bool, play func(at time.Time)) {
	i := len(m.pending)
	for i > 0 && m.pending[i-1].at.After(at) {
		i--
	}
	m.pending = slices.Insert(m.pending, i, event{at, press, play})
}

// effect notes that something was done.
func (m *machine) effect(op providers.Op, name string, destructive bool, detail string) {
	m.fleet.log.add(m.fleet.config.Now, m.id, op, name, destructive, detail)
}

// down ends everything that runs on the host.
func (m *machine) down(at time.Time, state string) {
	m.life++
	m.up, m.bootID, m.state = false, "", state
	for _, c := range m.commands {
		c.stop(at, "host went down")
	}
	for _, j := range m.joins {
		j.fail("host went down")
	}
}

// start boots the host: it answers after a while, if there is anything on its disk.
func (m *machine) start(at time.Time) {
	m.next = nil // it was for one boot
	m.state = "Booting"
	m.say("POST: memory OK, 1 disk, 1 NIC\r\n")
	life := m.life
	m.later(at.Add(time.Duration(m.fleet.config.BootTime)), false, func(time.Time) {
		if m.life != life {
			return
		}
		if m.image == "" {
			m.state = "NoOperatingSystem"
			m.say("no bootable device\r\n")
			return
		}
		m.booted()
	})
}

func (m *machine) booted() {
	m.boots++
	m.up, m.state = true, "PingOK"
	h := func(salt string) uint64 {
		return xxhash.Sum64String(fmt.Sprintf("%d\x00%s\x00%d\x00%s", m.fleet.config.Seed, m.id, m.boots, salt))
	}
	a, b := h("a"), h("b")
	m.bootID = fmt.Sprintf("%08x-%04x-%04x-%04x-%012x", a>>32, a>>16&0xffff, a&0xffff, b>>48, b&0xffffffffffff)
	m.say(m.id + " " + m.image + " boot " + m.bootID + "\r\n" + m.id + " login: ")
}

// reachable reports whether the host answers, and why.
func (m *machine) reachable() (bool, string) {
	if m.up && m.net.cut() {
		return false, "NetworkUnreachable"
	}
	return m.up, m.state
}
