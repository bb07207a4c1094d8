package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfast-metal/holdfast/agent/facts"
	"github.com/holdfast-metal/holdfast/agent/facts/smi"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// buffer is a log that a test reads while it is written.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// server returns a fake machine: eight CPUs, 16 GiB, two GPUs of which one is passed through to a
// VM.
func server() fstest.MapFS {
	m := fstest.MapFS{
		"sys/bus/pci/devices/0000:41:00.0/driver": {Data: []byte("../../../bus/pci/drivers/vfio-pci"), Mode: os.ModeSymlink},
	}
	for name, text := range map[string]string{
		"proc/sys/kernel/hostname": "gpu-worker-1\n",
		"proc/meminfo":             "MemTotal: 16777216 kB\nMemAvailable: 12582912 kB\n",
		"proc/stat":                "cpu 100 0 0 900 0 0 0 0\n",
		"proc/net/route": "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\n" +
			"bond0\t00000000\t0\t0003\t0\t0\t0\t00000000\n",
		"sys/devices/system/cpu/online":           "0-7\n",
		"sys/class/net/bond0/address":             "aa:bb:cc:00:11:22\n",
		"sys/class/dmi/id/sys_vendor":             "Dell Inc.\n",
		"sys/class/dmi/id/product_name":           "PowerEdge R750\n",
		"sys/class/dmi/id/product_serial":         "ABC1234\n",
		"sys/class/dmi/id/product_uuid":           "4C4C4544-0042-4310-8031-B4C04F333633\n",
		"sys/firmware/efi/fw_platform_size":       "64\n",
		"sys/bus/pci/devices/0000:01:00.0/class":  "0x030200\n",
		"sys/bus/pci/devices/0000:01:00.0/vendor": "0x10de\n",
		"sys/bus/pci/devices/0000:41:00.0/class":  "0x030200\n",
		"sys/bus/pci/devices/0000:41:00.0/vendor": "0x10de\n",
	} {
		m[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return m
}

// made returns the system of that machine, with an environment of alternating names and values.
func made(log *buffer, env ...string) system {
	return system{
		out: log, err: log, root: server(), version: "1.2.3", pid: 42,
		getenv: func(name string) string {
			for i := 0; i < len(env); i += 2 {
				if env[i] == name {
					return env[i+1]
				}
			}
			return ""
		},
		interfaces: func() ([]facts.Interface, error) {
			return []facts.Interface{
				{Name: "docker0", Addrs: []netip.Addr{netip.MustParseAddr("172.17.0.1")}},
				{Name: "bond0", Addrs: []netip.Addr{netip.MustParseAddr("192.168.1.100")}},
			}, nil
		},
		smi: func() (smi.Ask, bool) { return nil, false },
	}
}

// execute runs a command line until it or the test ends. The returned function ends it and returns
// its error.
func execute(t *testing.T, s system, args ...string) (end func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	root := newRoot(s)
	root.SetArgs(args)
	go func() { done <- root.ExecuteContext(ctx) }()
	var once sync.Once
	var err error
	end = func() error {
		once.Do(func() {
			cancel()
			err = <-done
		})
		return err
	}
	t.Cleanup(func() { _ = end() })
	return end
}

// eventually blocks until a condition holds.
func eventually(t *testing.T, name string, log *buffer, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !ok(); {
		if time.Now().After(deadline) {
			t.Fatalf("wait for %s: timed out:\n%s", name, log)
		}
		time.Sleep(5 * time.Millisecond) // sleep: between two polls
	}
}

// peer implements the machine and pool APIs of the documents, and records the requests.
type peer struct {
	*httptest.Server

	mu     sync.Mutex
	bodies map[string][]map[string]any // by path
	bad    int                         // requests without the token
}

func newPeer(t *testing.T) *peer {
	t.Helper()
	p := &peer{bodies: make(map[string][]map[string]any)}
	p.Server = httptest.NewServer(p)
	t.Cleanup(p.Close)
	return p
}

func (p *peer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r.Header.Get("Authorization") != "Bearer abc123" {
		p.bad++
		w.WriteHeader(401)
		return
	}
	var body map[string]any
	_ = json.NewDecoder(r.Body).Decode(&body)
	p.bodies[r.URL.Path] = append(p.bodies[r.URL.Path], body)
	switch r.URL.Path {
	case "/api/v1/machine/register":
		fmt.Fprint(w, `{"config":null,"machine_state":{"machine_id":"x","status":"registered","pool_name":"gpu","ttl_seconds":300}}`)
	case "/api/v1/machine/keepalive":
		fmt.Fprint(w, `{"status":"ok","machine_state":{"machine_id":"x","status":"ready","last_keepalive":"1767804357","ttl_seconds":3}}`)
	case "/v2/pools/register":
		fmt.Fprint(w, `{"pool_id":"pool-1","status":"registered","heartbeat_interval_ms":500}`)
	case "/v2/pools/pool-1/heartbeat":
		fmt.Fprint(w, `{"status":"healthy","next_heartbeat_ms":500}`)
	case "/v2/pools/pool-1/deregister":
		fmt.Fprint(w, `{"status":"draining"}`)
	default:
		w.WriteHeader(404)
	}
}

// got returns the bodies of the requests to a path.
func (p *peer) got(path string) []map[string]any {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.bodies[path]
}

func file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestVersion(t *testing.T) {
	var log buffer
	if err := execute(t, made(&log), "version")(); err != nil ||
		!strings.HasPrefix(log.String(), "holdfast-agent 1.2.3 go1.") {
		t.Errorf("%v: %q", err, &log)
	}
}

func TestRefusedCommandLines(t *testing.T) {
	token := file(t, "token", "abc123")
	noCert := file(t, "ca.pem", "no certificate")
	unknown := file(t, "pool.yaml", "registration: {poolid: x}\n")
	empty := file(t, "empty.yaml", "gpus: []\n")
	badAddr := file(t, "addr.yaml",
		"registration: {orchestrator_url: 'http://127.0.0.1:1', pool_id: p}\nmetrics_addr: 'nowhere:x'\n")
	state := t.TempDir()
	tests := []struct {
		args string
		env  []string
		want string
	}{
		{"run --pool gpu --token-file " + token + " --state-dir " + state, nil, "no address"},
		{"run --server https://a --token-file " + token + " --state-dir " + state, nil, "no pool"},
		{"run --server http://10.0.0.1 --pool gpu --token-file " + token + " --state-dir " + state, nil,
			"refusing to send a token"},
		{"run --server https://a --pool gpu --token-file x --state-dir /dev/null/x", nil, "create the state directory"},
		{"run --server https://a --pool gpu --token-file x --machine-id a/b --state-dir " + state, nil, `machine id "a/b"`},
		{"run --server https://a --pool gpu --token-file x --ca " + noCert, nil, "no PEM certificate in"},
		{"run --server https://a --ca /does/not/exist", nil, "read the CA certificate"},
		{"run --log-format xml", nil, `log format "xml"`},
		{"run --log-level loud", nil, "loud"},
		{"run", []string{"HOLDFAST_AGENT_INTERVAL", "soon"}, "read HOLDFAST_AGENT_INTERVAL"},
		{"run extra", nil, "unknown command"},
		{"pool", nil, "set --config"},
		{"pool --config /does/not/exist", nil, "read the configuration"},
		{"pool --config " + unknown, nil, `unknown key "poolid"`},
		{"pool --config " + empty, nil, "no key registration"},
		{"pool --config " + badAddr, nil, "serve metrics"},
		{"nonsense", nil, "unknown command"},
	}
	for _, tt := range tests {
		t.Run(tt.args, func(t *testing.T) {
			var log buffer
			root := newRoot(made(&log, tt.env...))
			root.SetArgs(strings.Fields(tt.args))
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			if err := root.ExecuteContext(ctx); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want an error with %q", err, tt.want)
			}
		})
	}
}

func TestFacts(t *testing.T) {
	var log buffer
	if err := execute(t, made(&log), "facts")(); err != nil ||
		!strings.Contains(log.String(), `"serial_number": "ABC1234"`) {
		t.Errorf("%v: %s", err, &log)
	}
	s := made(&log)
	s.interfaces = func() ([]facts.Interface, error) { return nil, errors.New("no network") }
	if err := execute(t, s, "facts")(); err == nil {
		t.Error("without a network: got no error")
	}
}
