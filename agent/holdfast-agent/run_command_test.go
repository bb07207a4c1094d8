package main

import (
	"context"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-metal/holdfast/agent/facts"
	"github.com/holdfast-metal/holdfast/agent/facts/smi"
	"github.com/holdfast-metal/holdfast/client/machine"
)

// TestRun starts from the command line and checks the requests to a server, and the same id after a
// restart.
func TestRun(t *testing.T) {
	p := newPeer(t)
	state := filepath.Join(t.TempDir(), "state")
	token := file(t, "token", "abc123\n")
	id := ""
	for restart := range 2 {
		var log buffer
		// The flags come from the environment, as in the unit. The first server is unreachable.
		s := made(&log, "HOLDFAST_AGENT_SERVER", "http://127.0.0.1:1,"+p.URL, "HOLDFAST_AGENT_POOL", "gpu",
			"STATE_DIRECTORY", state)
		end := execute(t, s, "run", "--token-file", token)
		want := 2 * (restart + 1)
		eventually(t, "two keepalives", &log, func() bool { return len(p.got("/api/v1/machine/keepalive")) >= want })
		if err := end(); err != nil {
			t.Fatalf("%v\n%s", err, &log)
		}
		registers := p.got("/api/v1/machine/register")
		if len(registers) != restart+1 {
			t.Fatalf("got %d registrations, want %d:\n%s", len(registers), restart+1, &log)
		}
		got := registers[restart]
		if id == "" {
			id, _ = got["machine_id"].(string)
		}
		if sum, _ := got["token_sha256"].(string); len(sum) != 64 {
			t.Errorf("got enrollment %q, want the SHA-256 of the token", sum)
		}
		delete(got, "token_sha256")
		if diff := cmp.Diff(map[string]any{
			"token": "abc123", "machine_id": id, "hostname": "gpu-worker-1", "provider_name": "generic", "pool_name": "gpu",
			"cpu": "8000m", "memory": "16Gi", "gpu_count": "2", "private_ip": "192.168.1.100",
			"vendor": "Dell Inc.", "model": "PowerEdge R750", "serial_number": "ABC1234",
			"system_uuid": "4c4c4544-0042-4310-8031-b4c04f333633",
			"arch":        got["arch"], "boot_mode": "uefi", "mac_address": "aa:bb:cc:00:11:22",
		}, got); diff != "" {
			t.Errorf("register (-want +got):\n%s", diff)
		}
		keep := p.got("/api/v1/machine/keepalive")[0]
		if diff := cmp.Diff(map[string]any{
			"machine_id": id, "provider_name": "generic", "pool_name": "gpu", "agent_version": "1.2.3",
			"metrics": map[string]any{
				"cpu_utilization_pct": 10.0, "memory_utilization_pct": 25.0, "total_cpu_available": 8000.0,
				"total_memory_available": 16384.0, "free_gpu_count": 1.0,
			},
		}, keep); diff != "" {
			t.Errorf("keepalive (-want +got):\n%s", diff)
		}
		if strings.Contains(log.String(), "abc123") {
			t.Errorf("got the token in the log:\n%s", &log)
		}
	}
	if len(id) != 8 || p.bad != 0 {
		t.Errorf("got id %q, %d requests without the token", id, p.bad)
	}
	// Move the disk to another machine.
	var log buffer
	s := made(&log, "STATE_DIRECTORY", state)
	s.root.(fstest.MapFS)["sys/class/dmi/id/product_uuid"] = &fstest.MapFile{
		Data: []byte("8e1b7a10-0000-4310-8031-000000000001\n")}
	end := execute(t, s, "run", "--token-file", token, "--server", p.URL, "--pool", "gpu")
	eventually(t, "a registration", &log, func() bool { return len(p.got("/api/v1/machine/register")) == 3 })
	if err := end(); err != nil {
		t.Fatal(err)
	}
	if got := p.got("/api/v1/machine/register")[2]["machine_id"]; got == id ||
		!strings.Contains(log.String(), "was written on other hardware") {
		t.Errorf("on other hardware: got id %v, want a new one:\n%s", got, &log)
	}
}

func TestHostSpecs(t *testing.T) {
	credentials := t.TempDir()
	for name, text := range map[string]string{credentialSerial: "SN-7\n",
		credentialUUID: "4C4C4544-0042-4310-8031-B4C04F333633\n"} {
		if err := os.WriteFile(filepath.Join(credentials, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// An agent without root permissions gets the serial number from systemd.
	h := &host{system: made(nil, "CREDENTIALS_DIRECTORY", credentials), hostname: "given", privateIP: "172.17.0.1"}
	root := h.root.(fstest.MapFS)
	delete(root, "sys/class/dmi/id/product_serial")
	delete(root, "sys/class/dmi/id/product_uuid")
	root["sys/class/net/docker0/address"] = &fstest.MapFile{Data: []byte("02:42:00:00:00:01\n")}
	got, err := h.Specs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := machine.Specs{
		Hostname: "given", PrivateIP: "172.17.0.1", CPUMillicores: 8000, MemoryMiB: 16384, GPUCount: 2,
		Hardware: machine.Hardware{Vendor: "Dell Inc.", Model: "PowerEdge R750", SerialNumber: "SN-7",
			SystemUUID: "4c4c4544-0042-4310-8031-b4c04f333633",
			Arch:       got.Hardware.Arch, BootMode: "uefi", MACAddress: "02:42:00:00:00:01"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("specs (-want +got):\n%s", diff)
	}
	if h.hardware() != "uuid:4c4c4544-0042-4310-8031-b4c04f333633" {
		t.Errorf("got hardware %q", h.hardware())
	}
	for _, missing := range []string{"proc/meminfo", "sys/devices/system/cpu/online"} {
		h := &host{system: made(nil)}
		delete(h.root.(fstest.MapFS), missing)
		if got, err := h.Specs(t.Context()); err == nil {
			t.Errorf("without %s: got %+v, want an error", missing, got)
		}
	}
	h = &host{system: made(nil)}
	h.interfaces = func() ([]facts.Interface, error) { return nil, nil }
	if got, err := h.Specs(t.Context()); err == nil || !strings.Contains(err.Error(), "wait for the network") {
		t.Errorf("without an address: got %+v, %v, want an error with a remedy", got, err)
	}
}

// CPU use is measured between two keepalives.
func TestHostMetrics(t *testing.T) {
	h := &host{system: made(nil)}
	for _, tt := range []struct {
		stat string
		want float64
	}{{"cpu 100 0 0 900", 10}, {"cpu 150 0 0 950", 50}, {"cpu 150 0 0 950", 0}} {
		h.root.(fstest.MapFS)["proc/stat"] = &fstest.MapFile{Data: []byte(tt.stat)}
		m, err := h.Metrics(t.Context())
		if err != nil || m.CPUUtilizationPct != tt.want {
			t.Errorf("%s: got %+v, %v, want %v %%", tt.stat, m, err, tt.want)
		}
	}
}

func TestFreeGPUs(t *testing.T) {
	monitor := func(gpus, programs string, err error) *smi.Monitor {
		m := smi.NewMonitor(func(_ context.Context, args ...string) (string, error) {
			if strings.HasPrefix(args[0], "--query-gpu") {
				return gpus, err
			}
			return programs, err
		}, testLogger())
		m.Poll(t.Context())
		return m
	}
	const two = "0, GPU-a, NVIDIA H100, 81559, 1, 30, 9.0\n1, GPU-b, NVIDIA H100, 81559, 81000, 30, 9.0\n"
	for _, tt := range []struct {
		name string
		gpus *smi.Monitor
		want *int
	}{
		{"no nvidia-smi: all GPUs of the host", nil, new(1)},
		{"GPU in use", monitor(two, "GPU-a, 17\n", nil), new(1)},
		{"none in use", monitor(two, "", nil), new(2)},
		{"all in use", monitor(two, "GPU-a, 17\nGPU-b, 18\n", nil), new(0)},
		{"unknown", monitor("", "", os.ErrDeadlineExceeded), nil},
	} {
		h := &host{system: made(nil), gpus: tt.gpus}
		m, err := h.Metrics(t.Context())
		if diff := cmp.Diff(tt.want, m.FreeGPUCount); diff != "" || err != nil {
			t.Errorf("%s: free GPUs (-want +got):\n%s%v", tt.name, diff, err)
		}
		sent, err := json.Marshal(m)
		if got := strings.Contains(string(sent), "free_gpu_count"); err != nil || got != (tt.want != nil) {
			t.Errorf("%s: sends %s, %v", tt.name, sent, err)
		}
	}
}

// TestRunNotifiesSystemd checks the notifications to systemd, from start to end.
func TestRunNotifiesSystemd(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	p := newPeer(t)
	var log buffer
	s := made(&log, "NOTIFY_SOCKET", socket, "WATCHDOG_USEC", "300000")
	end := execute(t, s, "run", "--server", p.URL, "--pool", "gpu", "--token-file", file(t, "token", "abc123"),
		"--state-dir", t.TempDir())
	read := func() string {
		b := make([]byte, 4096)
		if err := conn.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
			t.Fatal(err)
		}
		n, err := conn.Read(b)
		if err != nil {
			t.Fatalf("%v\n%s", err, &log)
		}
		return string(b[:n])
	}
	if got := read(); got != "READY=1" {
		t.Errorf("got first notification %q, want READY=1", got)
	}
	watchdogs, ready := 0, false
	for watchdogs < 5 || !ready {
		got := read()
		if strings.Contains(got, "WATCHDOG=1") {
			watchdogs++
		}
		ready = ready || strings.Contains(got, "is ready; keepalives each")
	}
	if err := end(); err != nil {
		t.Fatal(err)
	}
	for got := ""; got != "STOPPING=1"; got = read() {
	}
}

func TestMachineLine(t *testing.T) {
	at := time.Date(2026, 11, 21, 13, 30, 0, 0, time.UTC)
	for want, s := range map[string]machine.Status{
		"m-1 is ready; keepalives each 1m0s, the last at 13:30:00": {Ready: true, Interval: time.Minute, LastKeepalive: at},
		"m-1 is not ready, failures: 3, will retry: file does not": {Failures: 3, Err: os.ErrNotExist},
		"m-1 is registering": {},
	} {
		if got := machineLine("m-1", s); !strings.HasPrefix(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestIdentityIsPrivate(t *testing.T) {
	p := newPeer(t)
	state := filepath.Join(t.TempDir(), "state")
	var log buffer
	end := execute(t, made(&log), "run", "--server", p.URL, "--pool", "gpu", "--token-file", file(t, "token", "abc123"),
		"--state-dir", state, "--machine-id", "m-123")
	eventually(t, "a registration", &log, func() bool { return len(p.got("/api/v1/machine/register")) > 0 })
	if err := end(); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(state, "identity.json"))
	var got map[string]string
	if err != nil || json.Unmarshal(b, &got) != nil || got["machine_id"] != "m-123" {
		t.Errorf("got identity %s, %v, want m-123", b, err)
	}
	if info, err := os.Stat(state); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("mode of the directory: got %v, %v, want 0700", info.Mode(), err)
	}
}
