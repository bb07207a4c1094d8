package fake

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/holdfast-metal/holdfast/providers"
)

// machine is one machine. Its future events are in pending, and are applied when the machine is
// read.
type machine struct {
	id    string
	fleet *Fleet

	mu      sync.Mutex
	born    time.Time
	pending []event // by time

	calls        map[string]*calls
	authFailures int
	changing     int // effects on the BMC or the disk under way
	overlaps     int // such effects that came while another was under way
	late         int // effects refused because their not-after time had passed

	power  bool // as the BMC shows it
	target bool // power after all pending presses
	life   int  // incremented when the host goes down, so that events of an earlier life are ignored
	up     bool // the host answers
	boots  int
	bootID string // of the host that is up, else empty
	state  string // CamelCase, why the host is up or down
	image  string // on the disk; empty if the disk does not boot

	next  *providers.BootDevice // for one boot
	boot  providers.BootDevice
	media string

	care // of the BMC

	console     []byte
	consoleBase int64 // offset of its first byte
	commands    map[string]*command
	installs    map[string]*install
	current     *install // running one
	joins       map[string]*join
	cluster     string // of the host
	net         *network
	nets        map[string]bool // tokens seen
}

// event is a future change of a machine.
type event struct {
	at    time.Time
	press bool // of a power button
	play  func(at time.Time)
}

// calls counts the calls of one operation.
type calls struct {
	total  int
	change uint64 // change of the faults that since is counted from
	since  int
}

func newMachine(id string, f *Fleet) *machine {
	m := &machine{
		id:     id,
		fleet:  f,
		born:   f.config.Now(),
		calls:  make(map[string]*calls),
		power:  true,
		target: true,
		image:  "factory",
		boot:   providers.BootDevice{Mode: "DISK", Persistent: true},
	}
	m.note(m.born, "OK", "Event Logging Disabled", "Log area reset/cleared")
	m.booted()
	return m
}

// arrive counts a call and returns the effects of the faults on it. It refuses late calls.
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

// run performs the operation on the machine in its current state.
func (m *machine) run(o operation, s strike, r request) (any, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.fleet.config.Now()
	m.advance(now)
	// The check and the effect are one step under the lock: whoever reads the machine after the
	// not-after time sees all effects. The latency of the hardware is not the sender's fault.
	if err := m.tooLate(o, r, now.Add(-s.latency)); err != nil {
		return nil, err
	}
	if o.bmc && now.Before(m.backAt) {
		return nil, providers.Errorf(providers.Transient, o.name+" of "+m.id, "BMC does not answer: it is restarting")
	}
	if up, why := m.reachable(); o.host && !up {
		return nil, providers.Errorf(providers.Transient, o.name+" of "+m.id, "host does not answer: %s", why)
	}
	return o.run(&call{machine: m, now: now, op: r.op(), strike: s}, r.Args)
}

// tooLate refuses an effect if its not-after time had passed at the given time. The lock is held.
func (m *machine) tooLate(o operation, r request, at time.Time) error {
	if !o.effect || r.notAfter.IsZero() || at.Before(r.notAfter) {
		return nil
	}
	m.late++
	return providers.Errorf(providers.Late, o.name+" of "+m.id,
		"refused: it came %s too late, from the leader of epoch %d", at.Sub(r.notAfter), r.Epoch)
}

// advance applies the events until now.
func (m *machine) advance(now time.Time) {
	for len(m.pending) > 0 && !m.pending[0].at.After(now) {
		e := m.pending[0]
		m.pending = m.pending[1:]
		e.play(e.at)
	}
}

// later schedules an event. Events of the same time are applied in the order of scheduling.
func (m *machine) later(at time.Time, press bool, play func(at time.Time)) {
	i := len(m.pending)
	for i > 0 && m.pending[i-1].at.After(at) {
		i--
	}
	m.pending = slices.Insert(m.pending, i, event{at, press, play})
}

// effect records an effect.
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

// start boots the host. It answers after the boot time if its disk has an image.
func (m *machine) start(at time.Time) {
	m.next = nil // valid for one boot only
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

// reachable reports whether the host answers, with the reason.
func (m *machine) reachable() (bool, string) {
	if m.up && m.net.cut() {
		return false, "NetworkUnreachable"
	}
	return m.up, m.state
}
