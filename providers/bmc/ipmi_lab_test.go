//go:build linux

package bmc_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/holdfast-metal/holdfast/cluster/freeport"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/bmc"
)

// ipmiLab is a machine behind a real IPMI BMC in its own process.
type ipmiLab struct {
	*lab
	dir string
}

// needs skips a test if a program is missing.
func needs(t *testing.T, program, debian string) string {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		t.Skipf("NOT TESTED: %s is not installed (Debian package %s)", program, debian)
	}
	return path
}

// freePort returns a port that is free for TCP and UDP, and stays so if its owner restarts.
func freePort(t *testing.T) string {
	t.Helper()
	ports, err := freeport.Claim(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ports.Release() })
	_, port, err := net.SplitHostPort(ports.Address("127.0.0.1"))
	if err != nil {
		t.Fatal(err)
	}
	return port
}

func (l *ipmiLab) file(name string) string {
	l.t.Helper()
	b, err := os.ReadFile(filepath.Join(l.dir, name))
	if err != nil {
		l.t.Fatal(err)
	}
	return strings.TrimSpace(string(b))
}

// done returns the effects on the machine, in order.
func (l *ipmiLab) done() []string {
	l.t.Helper()
	s := l.file("log")
	if s == "" {
		return nil
	}
	return strings.Split(s, "\n")
}

// Inspect adds the facts that a provider with access to the host would have.
func (l *ipmiLab) Inspect(ctx context.Context, m providers.Machine) (providers.Facts, error) {
	f, err := l.p.Inspect(ctx, m)
	f.Reachable, f.ReachableReason = l.file("power") == "1", "PowerFile"
	if f.Reachable {
		f.BootID = l.file("boots")
	}
	return f, err
}

// newIPMILab starts a BMC and blocks until it answers.
func newIPMILab(t *testing.T, start func(t *testing.T, dir, port string) *exec.Cmd) *ipmiLab {
	t.Helper()
	needs(t, "ipmitool", "ipmitool")
	dir := t.TempDir()
	for f, v := range map[string]string{"power": "1", "boots": "1", "boot": "none", "log": ""} {
		if err := os.WriteFile(filepath.Join(dir, f), []byte(v), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	port := freePort(t)
	cmd := start(t, dir, port)
	cmd.Stdout, cmd.Stderr = t.Output(), t.Output()
	cmd.WaitDelay = time.Second
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	m := &holdfastv1.Machine{MachineId: "m-1", Labels: map[string]string{bmc.CipherLabel: "3"},
		Spec: &holdfastv1.MachineSpec{BmcEndpoint: "ipmi://127.0.0.1:" + port}}
	l := &ipmiLab{dir: dir, lab: &lab{t: t, m: m, acct: &accounts{is: bmc.Account{User: "admin", Password: "secret"}},
		mem: bmc.NewInMemory(), ctx: t.Context()}}
	l.p = l.provider(func(c *bmc.Config) { c.OpenTime, c.CommandTime = 10*time.Millisecond, 30*time.Second })
	l.eventually("an answer of the BMC", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		_, err := l.p.PowerState(ctx, m)
		return err == nil
	})
	return l
}

// ipmiSim starts OpenIPMI's simulator.
func ipmiSim(t *testing.T, dir, port string) *exec.Cmd {
	t.Helper()
	path := needs(t, "ipmi_sim", "openipmi")
	helper, err := filepath.Abs("testdata/chassis.sh")
	if err != nil {
		t.Fatal(err)
	}
	lan := fmt.Sprintf(`name "t"
set_working_mc 0x20
  startlan 1
    addr 127.0.0.1 %s
    priv_limit admin
    allowed_auths_callback none md2 md5 straight
    allowed_auths_user none md2 md5 straight
    allowed_auths_operator none md2 md5 straight
    allowed_auths_admin none md2 md5 straight
    guid a123456789abcdefa123456789000001
  endlan
  chassis_control "%s %s 0x20"
  startnow false
  sol "%s" 115200
  user 1 false "" "" user 10 none md2 md5 straight
  user 2 true "admin" "secret" admin 10 none md2 md5 straight
`, port, helper, dir, serialLine(t))
	const emu = `mc_setbmc 0x20
mc_add 0x20 0 no-device-sdrs 0x23 9 8 0x9f 0x1291 0xf02 persist_sdr
sel_enable 0x20 1000 0x0a
mc_enable 0x20
`
	for f, v := range map[string]string{"lan.conf": lan, "sim.emu": emu} {
		if err := os.WriteFile(filepath.Join(dir, f), []byte(v), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return exec.CommandContext(context.WithoutCancel(t.Context()), path, "-c", filepath.Join(dir, "lan.conf"), "-f",
		filepath.Join(dir, "sim.emu"), "-s", dir, "-n")
}

// pyghmi starts the BMC of python3-pyghmi.
func pyghmi(t *testing.T, dir, port string) *exec.Cmd {
	t.Helper()
	python := needs(t, "/usr/bin/python3", "python3")
	if err := exec.CommandContext(t.Context(), python, "-c", "import pyghmi.ipmi.bmc").Run(); err != nil {
		t.Skip("NOT TESTED: pyghmi is not installed (Debian package python3-pyghmi)")
	}
	return exec.CommandContext(context.WithoutCancel(t.Context()), python, "testdata/pybmc.py", dir, port)
}

// serialLine returns the serial line of a machine with a login prompt.
func serialLine(t *testing.T) (path string) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = master.Close() })
	fd := int(master.Fd())
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		_, err = term.MakeRaw(fd)
	}
	if err != nil {
		t.Fatal(err)
	}
	// ipmi_sim leaves its lock file behind when it is killed, and another process may have its id
	// by now. A new terminal has no other user.
	if err := os.Remove(fmt.Sprintf("/var/lock/LCK..%d", n)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	path = fmt.Sprintf("/dev/pts/%d", n)
	slave, err := os.OpenFile(path, os.O_RDWR|unix.O_NOCTTY, 0) // held open, so that it does not hang up
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = slave.Close() })
	go func() {
		b := make([]byte, 256)
		for {
			n, err := master.Read(b)
			if err != nil {
				return
			}
			for _, c := range b[:n] {
				answer := []byte{c}
				if c == '\n' || c == '\r' {
					answer = []byte("\r\nlogin: ")
				}
				if _, err := master.Write(answer); err != nil {
					return
				}
			}
		}
	}()
	return path
}
