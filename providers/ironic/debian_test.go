package ironic_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// e2eVariable switches the tests on that run against Debian's Ironic: make e2e-ironic.
const e2eVariable = "E2E_IRONIC"

// debian is an Ironic of Debian's packages: API and conductor as processes, SQLite, no authentication, and the driver for hardware that does not exist.
type debian struct {
	url  string
	dir  string
	next int // of the nodes
}

// config is that of the lab. Its power takes a second, as that of real hardware does, so that locks are seen.
const config = `[DEFAULT]
auth_strategy = noauth
rpc_transport = json-rpc
host = 127.0.0.1
my_ip = 127.0.0.1
pybasedir = /usr/lib/python3/dist-packages/ironic
state_path = DIR/state
tempdir = DIR/tmp
enabled_hardware_types = fake-hardware
enabled_bios_interfaces = fake
enabled_boot_interfaces = fake
enabled_console_interfaces = fake
enabled_deploy_interfaces = fake
enabled_inspect_interfaces = fake
enabled_management_interfaces = fake
enabled_network_interfaces = noop
enabled_power_interfaces = fake
enabled_raid_interfaces = fake
enabled_rescue_interfaces = fake
enabled_storage_interfaces = noop
enabled_vendor_interfaces = fake
default_network_interface = noop
[fake]
power_delay = 1
deploy_delay = 1
bios_delay = 1
[api]
host_ip = 127.0.0.1
port = API
api_workers = 1
[json_rpc]
auth_strategy = noauth
host_ip = 127.0.0.1
port = RPC
[database]
connection = sqlite:///DIR/ironic.sqlite
[conductor]
workers_pool_size = 20
[oslo_concurrency]
lock_path = DIR/locks
`

// bootDebian installs Ironic where it is missing, starts it, and stops it with the test.
func bootDebian(t *testing.T) *debian {
	t.Helper()
	if os.Getenv(e2eVariable) == "" {
		t.Skipf("NOT TESTED against a real Ironic: set %s=1, or make e2e-ironic (it needs Debian, root and a mirror, or ironic-api and ironic-conductor)", e2eVariable)
	}
	out, err := exec.CommandContext(t.Context(), "testdata/install.sh").CombinedOutput()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == 77 {
		t.Skipf("NOT TESTED against a real Ironic: %s", out[max(0, len(out)-1000):])
	}
	if err != nil {
		t.Fatalf("install Ironic: %v\n%s", err, out)
	}
	d := &debian{dir: t.TempDir()}
	api, rpc := freePort(t), freePort(t)
	d.url = "http://127.0.0.1:" + api
	for _, sub := range []string{"state", "tmp", "locks"} {
		if err := os.Mkdir(filepath.Join(d.dir, sub), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	text := strings.NewReplacer("DIR", d.dir, "API", api, "RPC", rpc).Replace(config)
	if err := os.WriteFile(filepath.Join(d.dir, "ironic.conf"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	// SQLite cannot be migrated, only made: so the schema is made as of this version.
	if out, err := exec.CommandContext(t.Context(), "ironic-dbsync", "--config-file", filepath.Join(d.dir, "ironic.conf"), "create_schema").CombinedOutput(); err != nil {
		t.Fatalf("make the database: %v\n%s", err, out)
	}
	d.start(t, "ironic-conductor")
	d.start(t, "ironic-api")
	eventually2(t, time.Minute, "a conductor", func() (bool, error) {
		var all struct{ Conductors []struct{ Alive bool } }
		err := d.do(t, http.MethodGet, "/v1/conductors", nil, &all)
		return err == nil && len(all.Conductors) == 1 && all.Conductors[0].Alive, err
	})
	return d
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

// start starts one of the programs in a group of its own, and ends the group with the test.
func (d *debian) start(t *testing.T, program string) {
	t.Helper()
	log, err := os.Create(filepath.Join(d.dir, program+".log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "--config-file", filepath.Join(d.dir, "ironic.conf"))
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
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // what is left of the group
		eventually2(t, 10*time.Second, "the end of "+program, func() (bool, error) {
			return errors.Is(syscall.Kill(-cmd.Process.Pid, 0), syscall.ESRCH), nil
		})
		said, err := os.ReadFile(log.Name())
		if err == nil && t.Failed() {
			t.Logf("%s: %s", program, said[max(0, len(said)-4000):])
		}
		_ = log.Close()
	})
}

// do speaks to the API, beside the provider.
func (d *debian) do(t *testing.T, method, path string, in, out any) error {
	t.Helper()
	var body io.Reader
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			t.Fatal(err)
		}
		body = bytes.NewReader(b)
	}
	ctx, stop := context.WithTimeout(context.Background(), 20*time.Second)
	defer stop()
	req, err := http.NewRequestWithContext(ctx, method, d.url+path, body)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-OpenStack-Ironic-API-Version", "1.82")
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode > 299 {
		err = fmt.Errorf("%s %s: %s: %s", method, path, res.Status, b)
	}
	if err == nil && out != nil && len(b) > 0 {
		err = json.Unmarshal(b, out)
	}
	return err
}

// node makes a node, and brings it through targets of the provision state, with its power on.
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

// shown is what the API says of a node.
type shown struct {
	UUID         string
	Power        string         `json:"power_state"`
	State        string         `json:"provision_state"`
	Error        string         `json:"last_error"`
	InstanceInfo map[string]any `json:"instance_info"`
	Reservation  string
}

func (d *debian) show(t *testing.T, name string) (n shown) {
	t.Helper()
	if err := d.do(t, http.MethodGet, "/v1/nodes/"+name, nil, &n); err != nil {
		t.Fatal(err)
	}
	return n
}

// history gives the provision states that Ironic's conductor says the node went through.
func (d *debian) history(t *testing.T, name string) string {
	t.Helper()
	log, err := os.ReadFile(filepath.Join(d.dir, "ironic-conductor.log"))
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

func eventually2(t *testing.T, limit time.Duration, what string, ok func() (bool, error)) {
	t.Helper()
	deadline := time.Now().Add(limit)
	for {
		yes, err := ok()
		if yes {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %v (last error: %v)", what, limit, err)
		}
		<-time.After(50 * time.Millisecond)
	}
}
