package ironic_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-metal/holdfast/cluster/freeport"
	"github.com/holdfast-metal/holdfast/providers/ironic/ironiclab"
)

// e2eVariable enables the tests that run against Debian's Ironic: make e2e-ironic.
const e2eVariable = "E2E_IRONIC"

// debian is an Ironic of Debian's packages: API and conductor as processes, SQLite, no
// authentication, and the fake-hardware driver.
type debian struct {
	*ironiclab.Lab
	dir  string
	next int // of the nodes
}

// settings makes power changes take a second, like real hardware, so that locks are visible.
const settings = `[fake]
power_delay = 1
deploy_delay = 1
bios_delay = 1
[conductor]
workers_pool_size = 20
`

// bootDebian installs Ironic if it is missing, starts it, and stops it with the test.
func bootDebian(t *testing.T) *debian {
	t.Helper()
	if os.Getenv(e2eVariable) == "" {
		t.Skipf("NOT TESTED against a real Ironic: set %s=1, or make e2e-ironic (needs Debian, root and a mirror, "+
			"or ironic-api and ironic-conductor)", e2eVariable)
	}
	out, err := exec.CommandContext(t.Context(), "testdata/install.sh").CombinedOutput()
	if err != nil {
		t.Fatalf("install Ironic: %v\n%s", err, out)
	}
	ports, err := freeport.Claim(t.Context(), 2)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ports.Release() })
	d := &debian{dir: t.TempDir()}
	d.Lab, err = ironiclab.Prepare(t.Context(), ironiclab.Config{
		Dir: d.dir, API: ports.Address("127.0.0.1"), RPC: ports.Address("127.0.0.1"), Settings: settings,
	})
	if err != nil {
		t.Fatal(err)
	}
	d.start(t, "conductor", d.Conductor)
	d.start(t, "api", d.API)
	eventually2(t, time.Minute, "a conductor", func() (bool, error) { return d.Ready(t.Context()) })
	return d
}

// start starts a program in its own process group, which ends with the test.
func (d *debian) start(t *testing.T, name string, call func() (program string, args []string)) {
	t.Helper()
	log, err := os.Create(filepath.Join(d.dir, name+".log"))
	if err != nil {
		t.Fatal(err)
	}
	program, args := call()
	cmd := exec.Command(program, args...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM)
		down := make(chan error, 1)
		go func() { down <- cmd.Wait() }()
		select {
		case <-down: //nolint:errcheck // it was killed
		case <-time.After(10 * time.Second):
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
			<-down //nolint:errcheck // it was killed
		}
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // the rest of the group
		eventually2(t, 10*time.Second, "the end of "+program, func() (bool, error) {
			return errors.Is(syscall.Kill(-cmd.Process.Pid, 0), syscall.ESRCH), nil
		})
		text, err := os.ReadFile(log.Name())
		if err == nil && t.Failed() {
			t.Logf("%s: %s", program, text[max(0, len(text)-4000):])
		}
		_ = log.Close()
	})
}

// do calls the API without the provider.
func (d *debian) do(t *testing.T, method, path string, in, out any) error {
	t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), 20*time.Second)
	defer stop()
	return d.Do(ctx, method, path, in, out)
}

// node creates a node with its power on, and brings it through the provision states.
func (d *debian) node(t *testing.T, targets ...string) string {
	t.Helper()
	d.next++
	name := fmt.Sprintf("node-%d", d.next)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(d.do(t, http.MethodPost, "/v1/nodes", map[string]any{"name": name, "driver": "fake-hardware",
		"properties": map[string]any{"cpus": 4, "memory_mb": 2048}}, nil))
	must(d.do(t, http.MethodPut, "/v1/nodes/"+name+"/traits", map[string]any{"traits": []string{"CUSTOM_GPU"}}, nil))
	ends := map[string]string{"manage": "manageable", "provide": "available", "active": "active"}
	for _, target := range targets {
		must(d.do(t, http.MethodPut, "/v1/nodes/"+name+"/states/provision", map[string]any{"target": target}, nil))
		eventually2(t, time.Minute, name+" "+ends[target], func() (bool, error) {
			n := d.show(t, name)
			return n.State == ends[target] && n.Reservation == "", nil
		})
	}
	must(d.do(t, http.MethodPut, "/v1/nodes/"+name+"/states/power", map[string]any{"target": "power on"}, nil))
	eventually2(t, time.Minute, name+" on", func() (bool, error) {
		n := d.show(t, name)
		return n.Power == "power on" && n.Reservation == "", nil
	})
	return name
}

func (d *debian) show(t *testing.T, name string) (n ironiclab.Node) {
	t.Helper()
	if err := d.do(t, http.MethodGet, "/v1/nodes/"+name, nil, &n); err != nil {
		t.Fatal(err)
	}
	return n
}

// history returns the provision states of a node in the log of Ironic's conductor.
func (d *debian) history(t *testing.T, name string) string {
	t.Helper()
	log, err := os.ReadFile(filepath.Join(d.dir, "conductor.log"))
	if err != nil {
		t.Fatal(err)
	}
	uuid := d.show(t, name).UUID
	var states []string
	for line := range strings.Lines(string(log)) {
		_, rest, ok := strings.Cut(line, "Node "+uuid+" moved to provision state \"")
		if state, _, ends := strings.Cut(rest, "\""); ok && ends {
			states = append(states, state)
		}
	}
	return strings.Join(states, ", ")
}

func eventually2(t *testing.T, limit time.Duration, name string, ok func() (bool, error)) {
	t.Helper()
	deadline := time.Now().Add(limit)
	for {
		yes, err := ok()
		if yes {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("wait for %s: not within %v (last error: %v)", name, limit, err)
		}
		<-time.After(50 * time.Millisecond)
	}
}
