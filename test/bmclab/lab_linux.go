package bmclab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-metal/holdfast/cluster/freeport"
	"github.com/holdfast-metal/holdfast/test/bmclab/chassis"
	"github.com/holdfast-metal/holdfast/test/bmclab/proc"
	"github.com/holdfast-metal/holdfast/test/program"
)

// The account of every BMC of the lab.
const (
	User     = "admin"
	Password = "secret"
)

// patience bounds waits for events that usually take a second or two, because the machine
// may be busy.
const patience = 60 * time.Second

// Bench is shared by all labs: programs, and the guests that machines boot.
type Bench struct {
	dir       string
	bmcServer string
	guests    chassis.Guests

	build    sync.Once
	holdfast string
	failed   error // error of the build
}

// Open installs missing programs, and builds the rest into a directory that Close removes.
func Open(ctx context.Context) (*Bench, error) {
	if err := Install(ctx); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "bmclab-")
	if err != nil {
		return nil, fmt.Errorf("open the lab: %w", err)
	}
	b := &Bench{dir: dir}
	if b.bmcServer, err = (program.Build{Package: "test/bmclab/bmcserver"}).Into(ctx, dir); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	if b.guests, err = chassis.BuildGuests(ctx, dir); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return b, nil
}

// Holdfast returns the binary under test. It is built on first use, unless
// HOLDFAST_TEST_BINARY names one.
func (b *Bench) Holdfast(ctx context.Context) (string, error) {
	if binary := os.Getenv("HOLDFAST_TEST_BINARY"); binary != "" {
		return binary, nil
	}
	b.build.Do(func() {
		b.holdfast, b.failed = program.Build{}.Into(ctx, b.dir)
	})
	return b.holdfast, b.failed
}

// Close removes the directory of the builds.
func (b *Bench) Close() error { return os.RemoveAll(b.dir) }

// Lab is the machines and BMCs of one test. They end with the test, or with the process.
type Lab struct {
	b       *Bench
	t       testing.TB
	dir     string
	ports   *freeport.Block
	starter *proc.Starter
	made    int
}

// Lab opens a lab. Its directory is removed at the end of the test, or kept and logged if
// the test has failed.
func (b *Bench) Lab(t testing.TB) *Lab {
	t.Helper()
	dir, err := os.MkdirTemp("", "bmc-") // short, because of socket paths
	if err != nil {
		t.Fatal(err)
	}
	ports, err := freeport.Claim(t.Context(), 16)
	if err != nil {
		t.Fatal(err)
	}
	l := &Lab{b: b, t: t, dir: dir, ports: ports, starter: proc.NewStarter()}
	t.Cleanup(func() {
		l.starter.Close()
		if err := ports.Release(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("kept %s", dir)
			return
		}
		_ = os.RemoveAll(dir)
	})
	return l
}

// Machine creates a machine, turns it on and blocks until it is up.
func (l *Lab) Machine(name string) *Machine {
	l.t.Helper()
	m := l.machine(chassis.Config{Name: name, Guests: l.b.guests})
	if err := m.Press("lab", chassis.On); err != nil {
		l.t.Fatal(err)
	}
	m.skip = len(m.Effects())
	m.Is(name+" is up", func(st chassis.State) bool { return st.Up }) // a machine that is not up ignores a soft off
	return m
}

// Box creates a machine that can run an operating system. It is off.
func (l *Lab) Box(name string, box chassis.Box) *Machine {
	l.t.Helper()
	return l.machine(chassis.Config{Name: name, Box: &box})
}

func (l *Lab) machine(cfg chassis.Config) *Machine {
	l.t.Helper()
	cfg.Dir, cfg.QEMU, cfg.Starter = l.dir, "qemu-system-x86_64", l.starter
	m, err := chassis.New(cfg)
	if err != nil {
		l.t.Fatal(err)
	}
	socket, stop, err := m.Serve()
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() {
		m.OnEffect(nil)
		m.OnRead(nil)
		if err := errors.Join(stop(), m.Close()); err != nil {
			l.t.Error(err)
		}
	})
	return &Machine{Machine: m, socket: socket, l: l}
}

// Dir returns the directory for files of the lab.
func (l *Lab) Dir() string { return l.dir }

// Start starts a program that ends with the lab, and logs into a file in its directory.
func (l *Lab) Start(logFile, program string, args ...string) *proc.Process {
	l.t.Helper()
	p, err := l.starter.Start(filepath.Join(l.dir, logFile), program, args...)
	if err != nil {
		l.t.Fatal(err)
	}
	return p
}

// Machine is a machine of the lab.
type Machine struct {
	*chassis.Machine
	socket string
	l      *Lab
	skip   int // number of effects that the lab itself caused
}

// Done returns the effects of BMCs, and those that happened by themselves.
func (m *Machine) Done() []chassis.Effect { return m.Effects()[m.skip:] }

// Is blocks until the machine is in the wanted state.
func (m *Machine) Is(what string, ok func(chassis.State) bool) {
	m.l.t.Helper()
	m.l.Until(what, func() bool { return ok(m.State()) })
}

// Until polls until ok returns true.
func (l *Lab) Until(what string, ok func() bool) {
	l.t.Helper()
	for end := time.Now().Add(patience); !ok(); {
		if time.Now().After(end) {
			l.t.Fatalf("%s: did not happen within %s", what, patience)
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-l.t.Context().Done():
			l.t.Fatalf("%s: did not happen before the end of the test", what)
		}
	}
}

// Files serves the guests' directory over HTTP, and returns the URL of the CD.
func (l *Lab) Files() (cd string) {
	l.t.Helper()
	s := &http.Server{Handler: http.FileServer(http.Dir(filepath.Dir(l.b.guests.CD))), ReadHeaderTimeout: patience}
	ln, err := net.Listen("tcp", l.ports.Address("127.0.0.1"))
	if err != nil {
		l.t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve(ln) }()
	l.t.Cleanup(func() {
		_ = s.Close()
		<-done //nolint:errcheck // it was closed
	})
	return "http://" + ln.Addr().String() + "/" + filepath.Base(l.b.guests.CD)
}
