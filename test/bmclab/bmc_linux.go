package bmclab

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/holdfast-metal/holdfast/test/bmclab/control"
	"github.com/holdfast-metal/holdfast/test/bmclab/proc"
)

// BMC is a BMC in its own process. Machines keep running when it does not.
type BMC struct {
	Endpoint string // bmc_endpoint of a machine
	*control.Client

	l     *Lab
	start func() (*proc.Process, error)
	up    func() bool
	now   *proc.Process
}

// Start starts the process, and blocks until it answers.
func (b *BMC) Start() {
	b.l.t.Helper()
	var err error
	if b.now, err = b.start(); err != nil {
		b.l.t.Fatal(err)
	}
	b.l.Until("BMC "+b.Endpoint+" answers", b.up)
}

// Kill kills the process, as a reset of the BMC does. Its sessions are lost.
func (b *BMC) Kill() {
	if err := b.now.Kill(); err != nil {
		b.l.t.Error(err)
	}
}

// Hang stops the process (SIGSTOP) until Resume.
func (b *BMC) Hang() {
	if err := b.now.Stop(); err != nil {
		b.l.t.Error(err)
	}
}

// Resume ends Hang.
func (b *BMC) Resume() {
	if err := b.now.Resume(); err != nil {
		b.l.t.Error(err)
	}
}

// Reboot kills the BMC, and starts it again after a while. It may be called on any
// goroutine.
func (b *BMC) Reboot(after time.Duration) {
	b.Kill()
	time.Sleep(after) // sleep: the time that it takes to boot
	var err error
	if b.now, err = b.start(); err != nil {
		b.l.t.Error(err)
	}
}

// Redfish starts a BMC with Redfish. Its systems are the machines, by name, and those in
// memory.
func (l *Lab) Redfish(machines []*Machine, inMemory ...string) *BMC {
	l.t.Helper()
	l.made++
	addr, at := l.ports.Address("127.0.0.1"), filepath.Join(l.dir, fmt.Sprintf("control%d", l.made))
	args := []string{"redfish", "-addr", addr, "-control", at}
	for _, m := range machines {
		args = append(args, "-system", m.Name()+"="+m.socket)
	}
	for _, id := range inMemory {
		args = append(args, "-system", id)
	}
	b := &BMC{Endpoint: "http://" + addr, Client: control.Dial(at), l: l}
	b.start = func() (*proc.Process, error) {
		_ = os.Remove(at)
		return l.starter.Start(filepath.Join(l.dir, "redfish.log"), l.b.bmcServer, args...)
	}
	b.up = func() bool {
		_, err := b.Seen(l.t.Context())
		return err == nil
	}
	b.Start()
	return b
}

// Path returns the endpoint of one of several systems.
func (b *BMC) Path(system string) string { return b.Endpoint + "/redfish/v1/Systems/" + system }

// IPMI starts ipmi_sim as the BMC of a machine. It supports only cipher suite 3, and of the
// boot flags it stores only the device.
func (l *Lab) IPMI(m *Machine) *BMC {
	l.t.Helper()
	host, port, err := net.SplitHostPort(l.ports.Address("127.0.0.1"))
	if err != nil {
		l.t.Fatal(err)
	}
	dir := filepath.Join(l.dir, "sim-"+m.Name())
	if err := os.MkdirAll(dir, 0o700); err != nil {
		l.t.Fatal(err)
	}
	var lan strings.Builder
	fmt.Fprintf(&lan, "name %q\nset_working_mc 0x20\n  startlan 1\n    addr %s %s\n    priv_limit admin\n", m.Name(),
		host, port)
	for _, level := range []string{"callback", "user", "operator", "admin"} {
		fmt.Fprintf(&lan, "    allowed_auths_%s none md2 md5 straight\n", level)
	}
	fmt.Fprintf(&lan,
		"    guid a123456789abcdefa123456789000001\n  endlan\n  chassis_control \"%s control %s 0x20\"\n"+
			"  startnow false\n  sol %q 115200\n",
		l.b.bmcServer, m.socket, m.Line())
	fmt.Fprintf(&lan,
		"  user 1 false \"\" \"\" user 10 none md2 md5 straight\n"+
			"  user 2 true %q %q admin 10 none md2 md5 straight\n", User, Password)
	const emu = "mc_setbmc 0x20\nmc_add 0x20 0 no-device-sdrs 0x23 9 8 0x9f 0x1291 0xf02 persist_sdr\n" +
		"sel_enable 0x20 1000 0x0a\nmc_enable 0x20\n"
	conf, sim := filepath.Join(dir, "lan.conf"), filepath.Join(dir, "sim.emu")
	for file, text := range map[string]string{conf: lan.String(), sim: emu} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			l.t.Fatal(err)
		}
	}
	b := &BMC{Endpoint: "ipmi://" + net.JoinHostPort(host, port), l: l}
	b.start = func() (*proc.Process, error) { // a SIGPIPE would end it
		return l.starter.Start(filepath.Join(dir, "log"), "/bin/sh", "-c",
			`trap "" PIPE; exec ipmi_sim -c "$1" -f "$2" -s "$3" -n`, "sh", conf, sim, dir)
	}
	b.up = func() bool { return answersIPMI(net.JoinHostPort(host, port)) }
	b.Start()
	return b
}

// answersIPMI reports whether a BMC responds to an ASF presence ping (IPMI 2.0 §13.2.3),
// which is cheap for the BMC.
func answersIPMI(addr string) bool {
	c, err := net.Dial("udp", addr)
	if err != nil {
		return false
	}
	defer func() { _ = c.Close() }()
	if err := c.SetDeadline(time.Now().Add(200 * time.Millisecond)); err != nil {
		return false
	}
	ping := []byte{0x06, 0x00, 0xff, 0x06, 0x00, 0x00, 0x11, 0xbe, 0x80, 0x01, 0x00, 0x00}
	if _, err := c.Write(ping); err != nil {
		return false
	}
	n, err := c.Read(make([]byte, 64))
	return err == nil && n > 8
}
