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

// Config configures a machine.
type Config struct {
	Name    string
	Dir     string // of sockets and logs; short, because unix socket paths are limited
	Guests  Guests
	QEMU    string // path of the program
	Starter *proc.Starter
	// Box is a machine that can run an operating system. Nil is the smallest machine, which
	// boots the guests.
	Box *Box
}

// Machine is one machine. It is off at first. It is safe for concurrent use.
type Machine struct {
	cfg     Config
	monitor *net.UnixListener // accepts a connection of each QEMU
	serial  *net.UnixListener
	line    *line

	pressing sync.Mutex // one press at a time

	mu       sync.Mutex
	now      State
	image    string // file in the virtual drive
	qemu     *running
	effects  []Effect
	lies     int
	onEffect func(Effect)
	onRead   func(State)
}

// running is a running QEMU.
type running struct {
	process *proc.Process
	qmp     *qmp
	conns   []net.Conn
	wanted  bool // to be ended
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

func (m *Machine) listen(name string) (*net.UnixListener, error) {
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: m.path(name + ".sock"), Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("listen for the %s of %s: %w", name, m.cfg.Name, err)
	}
	return l, nil
}

// Name returns the name of the machine.
func (m *Machine) Name() string { return m.cfg.Name }

// Line returns the path of the terminal of the serial line.
func (m *Machine) Line() string { return m.line.path }

// State returns the state of the machine.
func (m *Machine) State() State {
	m.mu.Lock()
	st, onRead := m.now, m.onRead
	m.mu.Unlock()
	if onRead != nil {
		onRead(st)
	}
	return st
}

// Effects returns the effects so far, in order.
func (m *Machine) Effects() []Effect {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]Effect(nil), m.effects...)
}

// Lie makes the chassis accept the next n presses without an effect; a negative n never
// ends.
func (m *Machine) Lie(n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lies = n
}

// OnEffect sets a function that is called after each effect, before the BMC gets the
// response. Nil removes it.
func (m *Machine) OnEffect(f func(Effect)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.onEffect = f
}

// OnRead sets a function that is called on each read of the state by a BMC, before the BMC
// gets the response. Nil removes it.
func (m *Machine) OnRead(f func(State)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.onRead = f
}

// note records an effect.
func (m *Machine) note(e Effect) {
	e.At = time.Now()
	m.mu.Lock()
	m.effects = append(m.effects, e)
	onEffect := m.onEffect
	m.mu.Unlock()
	if onEffect != nil {
		onEffect(e)
	}
}

// Press presses a button for a BMC. A reset is refused if the machine is off.
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
		return fmt.Errorf("press %q: unknown button", p)
	}
	if err != nil {
		return err
	}
	m.note(e)
	return nil
}

// SetBoot sets the boot override.
func (m *Machine) SetBoot(by string, b Boot) error {
	switch b.Target {
	case "none", "net", "disk", "cd":
	default:
		return fmt.Errorf("boot from %q: unknown device", b.Target)
	}
	if by == "ipmi" { // ipmi_sim does not pass the EFI flag on; the firmware boots in its own mode
		b.UEFI = m.onlyUEFI()
	}
	if m.onlyUEFI() && !b.UEFI && b.Target != "none" {
		return fmt.Errorf("boot from %q in legacy mode: the firmware supports only UEFI", b.Target)
	}
	m.mu.Lock()
	m.now.Boot = b
	m.mu.Unlock()
	m.note(Effect{By: by, What: "boot " + b.Target})
	return nil
}

// Close ends the machine permanently.
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
