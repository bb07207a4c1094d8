package chassis

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"
)

// startTime bounds how long a QEMU may take to connect to its chassis.
const startTime = 30 * time.Second

// bootOrder is where devices stand when nothing else was asked for: 1 is for what was.
func bootOrder() map[string]int { return map[string]int{"disk": 2, "net": 3, "cd": 4} }

// arguments returns QEMU's command line: the smallest PC that has a disk, a CD drive, a network
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
		"-name", m.cfg.Name, "-machine", "pc", "-accel", "tcg,thread=single,tb-size=8", "-cpu", "qemu64", "-m", "32", "-smp", "1",
		"-nodefaults", "-no-user-config", "-display", "none", "-vga", "none",
		"-chardev", "socket,id=monitor,path=" + m.path("monitor.sock"), "-mon", "chardev=monitor,mode=control",
		"-chardev", "socket,id=line,path=" + m.path("serial.sock"), "-serial", "chardev:line",
		"-drive", "if=none,id=d0,format=raw,readonly=on,file=" + m.cfg.Guests.Disk, "-device", fmt.Sprint("virtio-blk-pci,drive=d0,id=disk0,bootindex=", order["disk"]),
		"-netdev", "user,id=n0,restrict=on,tftp=" + m.cfg.Guests.Net + ",bootfile=" + NetFile, "-device", fmt.Sprint("virtio-net-pci,netdev=n0,id=net0,bootindex=", order["net"]),
		"-drive", cd, "-device", fmt.Sprint("ide-cd,drive=cdd,id=cd0,bootindex=", order["cd"]),
	}
}

// start turns the machine on. The override is for this boot; one for once is used up.
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
	go m.await(q)                // the same
	return nil
}

// connect takes the two connections of a QEMU that was started.
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

// await notes that the machine went down by itself.
func (m *Machine) await(q *running) {
	<-q.process.Done()
	if m.down(q) {
		m.note(Effect{By: "machine", What: "down"})
	}
	q.close()
}

// down takes a QEMU that has ended out, and says whether it was the first to do so and nobody had
// wanted it.
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

// listenTo reads the serial line: the guest tells on it what it was booted from.
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
