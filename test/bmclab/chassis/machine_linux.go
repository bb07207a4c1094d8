package chassis

import (
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"sync"
	"time"

	"github.com/holdfast-metal/holdfast/test/bmclab/proc"
)

// Config says what a machine is made of.
type Config struct {
	Name    string
	Dir     string // of sockets and logs; its path is short, for they are unix sockets
	Guests  Guests
	QEMU    string // the program
	Starter *proc.Starter
	// Box is a machine that is large enough for an operating system; nil is the smallest there is,
	// which boots the guests.
	Box *Box
}

// Machine is one machine. It is off at first. It is safe for concurrent use.
type Machine struct {
	cfg     Config
	monitor *net.UnixListener // a QEMU connects to it when it starts
	serial  *net.UnixListener
	line    *line

	pressing sync.Mutex // one press at a time

	mu       sync.Mutex
	now      State
	image    string // file of what is in the virtual drive
	qemu     *running
	effects  []Effect
	lies     int
	onEffect func(Effect)
	onLook   func(State)
}

// running is one QEMU.
type running struct {
	process *proc.Process
	qmp     *qmp
	conns   []net.Conn
	wanted  bool // to end
}

// New returns a machine that is off.
func New(cfg Config) (*Machine, error) {
	m := &Machine{cfg: cfg}
	m.now = State{Since: time.Now(), Boot: Boot{Target: "none", UEFI: m.onlyUEFI()}}
	var err error
	if m.monitor, err = m.listen("monitor"); err != nil {
		return nil, err
	}
	if m.serial, err = m.listen("serial"); err != nil {
		return nil, errors.Join(err, m.monitor.Close())
	}
	if m.line, err = newLine(m.path("serial.log")); err != nil {
		return nil, errors.Join(err, m.monitor.Close(), m.serial.Close())
	}
	return m, nil
}

// onlyUEFI reports whether the firmware is OVMF, which has no legacy mode.
func (m *Machine) onlyUEFI() bool { return m.cfg.Box != nil && m.cfg.Box.UEFI[0] != "" }

func (m *Machine) path(file string) string { return filepath.Join(m.cfg.Dir, m.cfg.Name+"-"+file) }

func (m *Machine) listen(what string) (*net.UnixListener, error) {
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: m.path(what + ".sock"), Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("listen for the %s of %s: %w", what, m.cfg.Name, err)
	}
	return l, nil
}

// Name is that of the machine.
func (m *Machine) Name() string { return m.cfg.Name }

// Line is the path of the serial line: a terminal at which somebody may sit.
func (m *Machine) Line() string { return m.line.path }

// State returns how the machine is.
func (m *Machine) State() State {
	m.mu.Lock()
	st, look := m.now, m.onLook
	m.mu.Unlock()
	if look != nil {
		look(st)
	}
	return st
}

// Effects returns what was done, in order.
func (m *Machine) Effects() []Effect {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]Effect(nil), m.effects...)
}

// Lie makes the chassis accept the next n presses and do nothing; a negative number never ends.
func (m *Machine) Lie(n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lies = n
}

// OnEffect calls f for each effect, when it was done and before the BMC hears of it. Nil ends that.
func (m *Machine) OnEffect(f func(Effect)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.onEffect = f
}

// OnLook calls f for each look that a BMC takes at the machine, before the BMC hears what was seen.
// Nil ends that.
func (m *Machine) OnLook(f func(State)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.onLook = f
}

// note writes an effect down.
func (m *Machine) note(e Effect) {
	e.At = time.Now()
	m.mu.Lock()
	m.effects = append(m.effects, e)
	told := m.onEffect
	m.mu.Unlock()
	if told != nil {
		told(e)
	}
}

// Press presses a button for a BMC. A reset of a machine that is off is refused.
func (m *Machine) Press(by string, p Press) error {
	m.pressing.Lock()
	defer m.pressing.Unlock()
	m.mu.Lock()
	q, lies := m.qemu, m.lies
	if m.lies > 0 {
		m.lies--
	}
	m.mu.Unlock()
	e := Effect{By: by, What: string(p), Was: (q != nil) == (p == On)}
	if lies != 0 {
		e.Lost = true
		m.note(e)
		return nil
	}
	var err error
	switch p {
	case On:
		if q == nil {
			err = m.start()
		}
	case Off:
		if q != nil {
			err = m.end(q)
		}
	case Soft:
		if q != nil {
			err = q.qmp.do("system_powerdown", nil)
		}
	case Reset:
		if q == nil {
			return errors.New("reset: the machine is off")
		}
		e.Was = false
		if err = m.end(q); err == nil {
			err = m.start()
		}
	default:
		return fmt.Errorf("press %q: there is no such button", p)
	}
	if err != nil {
		return err
	}
	m.note(e)
	return nil
}

// SetBoot sets the override.
func (m *Machine) SetBoot(by string, b Boot) error {
	switch b.Target {
	case "none", "net", "disk", "cd":
	default:
		return fmt.Errorf("boot from %q: there is no such device", b.Target)
	}
	if by == "ipmi" { // ipmi_sim does not pass the EFI flag on: firmware boots in the mode that it has
		b.UEFI = m.onlyUEFI()
	}
	if m.onlyUEFI() && !b.UEFI && b.Target != "none" {
		return fmt.Errorf("boot from %q in legacy mode: the firmware has UEFI alone", b.Target)
	}
	m.mu.Lock()
	m.now.Boot = b
	m.mu.Unlock()
	m.note(Effect{By: by, What: "boot " + b.Target})
	return nil
}

// Close ends the machine for good.
func (m *Machine) Close() error {
	m.pressing.Lock()
	defer m.pressing.Unlock()
	m.mu.Lock()
	q := m.qemu
	m.mu.Unlock()
	var err error
	if q != nil {
		err = m.end(q)
	}
	return errors.Join(err, m.monitor.Close(), m.serial.Close(), m.line.close())
}
