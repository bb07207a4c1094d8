package chassis

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"
)

// startTime bounds the wait for a QEMU to connect to its chassis.
const startTime = 30 * time.Second

// bootOrder returns the default boot order. 1 is reserved for the override.
func bootOrder() map[string]int { return map[string]int{"disk": 2, "net": 3, "cd": 4} }

// arguments returns QEMU's command line: the smallest PC with a disk, a CD drive, a network
// card and a serial line.
func (m *Machine) arguments(b Boot, image string) []string {
	order := bootOrder()
	if _, is := order[b.Target]; is {
		order[b.Target] = 1
	}
	cd := "if=none,id=cdd,media=cdrom,readonly=on"
	if image != "" {
		cd += ",format=raw,file=" + image
	}
	if m.cfg.Box != nil {
		return m.boxArguments(order, cd)
	}
	return []string{
		"-name", m.cfg.Name, "-machine", "pc", "-accel", "tcg,thread=single,tb-size=8",
		"-cpu", "qemu64", "-m", "32", "-smp", "1",
		"-nodefaults", "-no-user-config", "-display", "none", "-vga", "none",
		"-chardev", "socket,id=monitor,path=" + m.path("monitor.sock"), "-mon", "chardev=monitor,mode=control",
		"-chardev", "socket,id=line,path=" + m.path("serial.sock"), "-serial", "chardev:line",
		"-drive", "if=none,id=d0,format=raw,readonly=on,file=" + m.cfg.Guests.Disk,
		"-device", fmt.Sprint("virtio-blk-pci,drive=d0,id=disk0,bootindex=", order["disk"]),
		"-netdev", "user,id=n0,restrict=on,tftp=" + m.cfg.Guests.Net + ",bootfile=" + NetFile,
		"-device", fmt.Sprint("virtio-net-pci,netdev=n0,id=net0,bootindex=", order["net"]),
		"-drive", cd, "-device", fmt.Sprint("ide-cd,drive=cdd,id=cd0,bootindex=", order["cd"]),
	}
}

// start turns the machine on. It applies the override, and removes a one-time one.
func (m *Machine) start() error {
	m.mu.Lock()
	boot, image := m.now.Boot, m.image
	m.mu.Unlock()
	p, err := m.cfg.Starter.Start(m.path("qemu.log"), m.cfg.QEMU, m.arguments(boot, image)...)
	if err != nil {
		return err
	}
	q := &running{process: p}
	if err := m.connect(q); err != nil {
		q.close()
		return errors.Join(fmt.Errorf("start %s: %w: see %s", m.cfg.Name, err, m.path("qemu.log")), p.Kill())
	}
	m.mu.Lock()
	if m.cfg.Box != nil && !boot.Persistent {
		if err := q.bootsNormally(boot.Target); err != nil {
			m.mu.Unlock()
			q.close()
			return errors.Join(err, p.Kill())
		}
	}
	if !boot.Persistent && m.now.Boot == boot {
		m.now.Boot = Boot{Target: "none", UEFI: boot.UEFI}
	}
	m.qemu = q
	m.now.On, m.now.Up, m.now.From, m.now.Since = true, false, "", time.Now()
	m.mu.Unlock()
	go m.listenTo(q, q.conns[1]) // ends with the process
	go m.await(q)                // ends with the process
	return nil
}

// connect accepts the two connections of a started QEMU.
func (m *Machine) connect(q *running) error {
	for _, l := range []*net.UnixListener{m.monitor, m.serial} {
		if err := l.SetDeadline(time.Now().Add(startTime)); err != nil {
			return err
		}
		c, err := l.Accept()
		if err != nil {
			return fmt.Errorf("wait for QEMU to connect: %w", err)
		}
		q.conns = append(q.conns, c)
	}
	var err error
	q.qmp, err = meet(q.conns[0])
	return err
}

func (q *running) close() {
	for _, c := range q.conns {
		_ = c.Close()
	}
}

// end turns the machine off, as a power cut does.
func (m *Machine) end(q *running) error {
	m.mu.Lock()
	q.wanted = true
	m.mu.Unlock()
	err := q.process.Kill()
	m.down(q)
	return err
}

// await records when the machine goes down by itself.
func (m *Machine) await(q *running) {
	<-q.process.Done()
	if m.down(q) {
		m.note(Effect{By: "machine", What: "down"})
	}
	q.close()
}

// down removes an ended QEMU. It reports whether the end was unexpected and not yet
// recorded.
func (m *Machine) down(q *running) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.qemu != q {
		return false
	}
	m.qemu = nil
	m.now.On, m.now.Up, m.now.Since = false, false, time.Now()
	return !q.wanted
}

// listenTo reads the serial line, on which the guest reports its boot device.
func (m *Machine) listenTo(q *running, c net.Conn) {
	m.line.attach(c)
	defer m.line.attach(nil)
	lines := bufio.NewScanner(m.line.tee(c))
	for lines.Scan() {
		from, is := strings.CutPrefix(strings.TrimSpace(lines.Text()), "up from ")
		if !is {
			continue
		}
		m.mu.Lock()
		if m.qemu == q {
			m.now.Up, m.now.From = true, from
		}
		m.mu.Unlock()
	}
}
