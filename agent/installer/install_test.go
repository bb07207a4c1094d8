package installer

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"
	"go.uber.org/goleak"

	"github.com/holdfast-metal/holdfast/agent/installer/installtest"
	"github.com/holdfast-metal/holdfast/agent/installer/peers"
	"github.com/holdfast-metal/holdfast/internal/diskrule"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const diskSize = 8 << 20

// memory is a disk with old data.
type memory struct {
	b      []byte
	writes int
	erase  error // error of a wipe
}

func (m *memory) ReadAt(p []byte, off int64) (int, error) { return bytes.NewReader(m.b).ReadAt(p, off) }
func (m *memory) WriteAt(p []byte, off int64) (int, error) {
	m.writes++
	return copy(m.b[off:], p), nil
}
func (m *memory) Sync() error  { return nil }
func (m *memory) Close() error { return nil }
func (m *memory) Erase(context.Context) (string, error) {
	if m.erase != nil {
		return "", m.erase
	}
	clear(m.b)
	return "zeros", nil
}

// machine has disks in memory.
type machine struct {
	mu       sync.Mutex
	disks    []diskrule.Disk
	media    map[string]*memory
	finished []string // disks
}

func newMachine(serials ...string) *machine {
	m := &machine{media: map[string]*memory{}}
	for i, s := range serials {
		name := "sd" + string(rune('a'+i))
		m.disks = append(m.disks, diskrule.Disk{Name: name, Serial: s, SizeBytes: diskSize})
		m.media[name] = &memory{b: bytes.Repeat([]byte{0xaa}, diskSize)}
	}
	return m
}

func (m *machine) Disks() ([]diskrule.Disk, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]diskrule.Disk(nil), m.disks...), nil
}
func (m *machine) Inventory() (peers.Inventory, string) {
	return peers.Inventory{Vendor: "Dell Inc.", SerialNumber: "ABC1234"}, "10.0.0.7"
}
func (m *machine) Open(name string) (Disk, error) { return m.media[name], nil }
func (m *machine) Finish(_ context.Context, disk string, o peers.Order) ([]string, error) {
	m.finished = append(m.finished, disk)
	return []string{"ssh-ed25519 AAAA" + o.MachineID}, nil
}

// untouched reports whether no disk was written to.
func (m *machine) untouched() bool {
	for _, d := range m.media {
		if d.writes > 0 || !bytes.Equal(d.b, bytes.Repeat([]byte{0xaa}, diskSize)) {
			return false
		}
	}
	return true
}

func plainImage() []byte {
	b := make([]byte, 5<<20)
	_, _ = rand.NewChaCha8([32]byte{3}).Read(b)
	clear(b[:1024])
	b[0x1be+4], b[0x1be+12], b[0x1fe], b[0x1ff] = 0x83, 1, 0x55, 0xaa // one partition
	return b
}

// newPeer serves a compressed image, and an order for it with a rule.
func newPeer(t *testing.T, rule string) *installtest.Peer {
	t.Helper()
	z, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	p := &installtest.Peer{Image: z.EncodeAll(plainImage(), nil)}
	p.Order = p.Standard("debian-13", "ZSTD", rule)
	return p
}

// run installs and returns the error.
func run(t *testing.T, p *installtest.Peer, m Machine) error {
	t.Helper()
	s := httptest.NewServer(p)
	t.Cleanup(s.Close)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	client, err := peers.New(peers.Config{URL: s.URL, Token: installtest.Token, HTTP: &http.Client{Transport: transport}})
	if err != nil {
		t.Fatal(err)
	}
	log := &peers.Log{}
	in := New(Config{
		Client: client, Log: log, HTTP: &http.Client{Transport: transport}, Logger: slog.New(slog.NewTextHandler(log, nil)),
		Settle: 10 * time.Millisecond, DiskTimeout: 50 * time.Millisecond, Every: 10 * time.Millisecond,
		ReportTimeout: 10 * time.Second, GiveUp: time.Second,
	}, m)
	err = in.Run(t.Context())
	if wrong := p.Wrong(); len(wrong) > 0 {
		t.Errorf("got violations of the contract: %q", wrong)
	}
	if strings.Contains(p.Log(), installtest.Token) {
		t.Error("got the token in the log")
	}
	return err
}

func TestInstall(t *testing.T) {
	p, m := newPeer(t, "serial=B"), newMachine("A", "B")
	if err := run(t, p, m); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"started", "progress", "complete"}, p.Statuses()); diff != "" {
		t.Errorf("reports (-want +got):\n%s", diff)
	}
	if got := p.Last(); got.Progress != 100 || len(got.HostKeys) != 1 || got.HostKeys[0] != "ssh-ed25519 AAAAm-1" {
		t.Errorf("got last report %+v", got)
	}
	if inv := p.Reports()[0].Inventory; inv["vendor"] != "Dell Inc." || len(inv["disks"].([]any)) != 2 {
		t.Errorf("got inventory %v", inv)
	}
	if !bytes.Equal(m.media["sdb"].b[:5<<20], plainImage()) || m.media["sda"].writes > 0 {
		t.Error("got a disk without the image")
	}
	if diff := cmp.Diff([]string{"sdb"}, m.finished); diff != "" {
		t.Errorf("finished (-want +got):\n%s", diff)
	}
	for _, want := range []string{"work order received", "disk chosen", "installation complete"} {
		if !strings.Contains(p.Log(), want) {
			t.Errorf("log: got no %q:\n%s", want, p.Log())
		}
	}
}

func TestInstallWipes(t *testing.T) {
	p, m := newPeer(t, ""), newMachine("A")
	p.Order["wipe"] = true
	if err := run(t, p, m); err != nil {
		t.Fatal(err)
	}
	wiped := p.Last().Inventory["wiped"].([]any)
	if diff := cmp.Diff([]any{map[string]any{"disk": "sda", "method": "zeros"}}, wiped); diff != "" {
		t.Errorf("wiped (-want +got):\n%s", diff)
	}
	if !bytes.Equal(m.media["sda"].b[5<<20:], make([]byte, 3<<20)) {
		t.Error("got old data after the image, want it wiped")
	}
}

func TestInstallContinuesAfterCut(t *testing.T) {
	p, m := newPeer(t, ""), newMachine("A")
	p.Cuts, p.CutAt = 3, len(p.Image)/4
	if err := run(t, p, m); err != nil {
		t.Fatal(err)
	}
	if got := p.Ranges(); len(got) != 4 || got[3] == "" {
		t.Errorf("got ranges %q", got)
	}
	if !bytes.Equal(m.media["sda"].b[:5<<20], plainImage()) {
		t.Error("got a disk without the image")
	}
}

func TestInstallFails(t *testing.T) {
	set := func(key string, value any) func(*installtest.Peer) {
		return func(p *installtest.Peer) { p.Order["image"].(map[string]any)[key] = value }
	}
	tests := []struct {
		name    string
		rule    string
		change  func(*installtest.Peer)
		serials []string
		want    string
		written bool
	}{
		{"two disks", "", nil, []string{"A", "B"},
			"2 disks qualify and nothing was written: sda (8 MB, serial A); sdb (8 MB, serial B)", false},
		{"no disk", "serial=C", nil, []string{"A"}, "no disk qualifies; seen: sda (8 MB, serial A): its serial is not C",
			false},
		{"no disk", "", nil, nil, "the machine has no disk", false},
		{"invalid rule", "first", nil, []string{"A"}, `"first" is not a condition`, false},
		{"missing checksum", "", set("sha256", ""), []string{"A"}, "an image that cannot be checked is not written",
			false},
		{"a wrong checksum", "", set("sha256", strings.Repeat("0", 64)), []string{"A"}, "checksum of image debian-13 is",
			true},
		{"an unknown format", "", set("format", "VMDK"), []string{"A"}, "writes RAW, QCOW2 and TAR", false},
		{"tar on a machine that cannot", "", set("format", "IMAGE_FORMAT_TAR"), []string{"A"},
			"unpack image debian-13: this machine cannot", false},
		{"no qcow2", "", set("format", "QCOW2"), []string{"A"},
			"declared as QCOW2, but it is a disk with a boot sector", false},
		{"an unknown compression", "", set("compression", "XZ"), []string{"A"}, "knows NONE, GZIP and ZSTD", false},
		{"file URL", "", set("url", "file:///etc/shadow"), []string{"A"}, "only http:// and https://", false},
		{"too small", "", func(p *installtest.Peer) { // a compressed image with its size
			z, _ := zstd.NewWriter(nil)
			p.Image = z.EncodeAll(make([]byte, diskSize+1), nil)
			p.Order = p.Standard("debian-13", "ZSTD", "")
		}, []string{"A"}, "needs a disk of 8388609 bytes (8 MB) and this one has 8388608 (8 MB): nothing was written", false},
		{"missing image", "", func(p *installtest.Peer) {
			p.Refuse = func(r *http.Request) int {
				if strings.HasPrefix(r.URL.Path, "/images/") {
					return http.StatusServiceUnavailable
				}
				return 0
			}
		}, []string{"A"}, "no peer has sent anything for 1s", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, m := newPeer(t, tt.rule), newMachine(tt.serials...)
			if tt.change != nil {
				tt.change(p)
			}
			err := run(t, p, m)
			got := p.Last()
			if err == nil || got.Status != "failed" || !strings.Contains(got.Error, tt.want) {
				t.Errorf("got %+v, %v\nwant %q", got, err, tt.want)
			}
			if m.untouched() == tt.written {
				t.Errorf("got written %v, want %v", !m.untouched(), tt.written)
			}
			if len(m.finished) > 0 {
				t.Error("got a finished disk without the image")
			}
		})
	}
}

func TestFailedWipeStopsInstall(t *testing.T) {
	p, m := newPeer(t, ""), newMachine("A")
	p.Order["wipe"] = true
	m.media["sda"].erase = errors.New("the disk is frozen")
	err := run(t, p, m)
	if got := p.Last(); err == nil || !strings.Contains(got.Error, "wipe sda: the disk is frozen") ||
		got.Inventory["wiped"] == nil {
		t.Errorf("got %+v, %v", got, err)
	}
	if !m.untouched() {
		t.Error("got a write, want none")
	}
}

// A canceled session writes nothing once a peer has reported that.
func TestCanceledSession(t *testing.T) {
	tests := []struct {
		name  string
		until func(r *http.Request) bool // reports whether requests are still accepted
	}{
		{"before the order", func(*http.Request) bool { return false }},
		{"before it started", func(r *http.Request) bool { return r.Method == http.MethodGet }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, m := newPeer(t, ""), newMachine("A")
			p.Refuse = func(r *http.Request) int {
				if tt.until(r) {
					return 0
				}
				return http.StatusGone
			}
			if err := run(t, p, m); !errors.Is(err, peers.ErrOver) {
				t.Errorf("got %v, want %v", err, peers.ErrOver)
			}
			if !m.untouched() {
				t.Error("got a write, want none")
			}
		})
	}
	t.Run("during the write", func(t *testing.T) {
		p, m := newPeer(t, ""), newMachine("A")
		var over bool // after the first bytes were written
		var mu sync.Mutex
		p.Refuse = func(r *http.Request) int {
			mu.Lock()
			defer mu.Unlock()
			switch {
			case strings.HasPrefix(r.URL.Path, "/images/") && r.Header.Get("Range") != "":
				over = true
				return http.StatusServiceUnavailable
			case over:
				return http.StatusGone
			}
			return 0
		}
		p.Cuts, p.CutAt = 1, 3<<20
		if err := run(t, p, m); !errors.Is(err, peers.ErrOver) {
			t.Errorf("got %v, want %v", err, peers.ErrOver)
		}
		if b := m.media["sda"].b; !bytes.Equal(b[:1<<20], make([]byte, 1<<20)) {
			t.Error("got a bootable disk")
		}
	})
}

// Elections and restarts only cost time.
func TestRestartingPeers(t *testing.T) {
	p, m := newPeer(t, ""), newMachine("A")
	seen := map[string]int{}
	var mu sync.Mutex
	p.Refuse = func(r *http.Request) int {
		mu.Lock()
		defer mu.Unlock()
		if seen[r.URL.Path]++; seen[r.URL.Path] == 1 {
			return http.StatusServiceUnavailable
		}
		return 0
	}
	if err := run(t, p, m); err != nil {
		t.Fatal(err)
	}
}

// A disk that appears late makes a rule ambiguous.
func TestLateDisks(t *testing.T) {
	p, m := newPeer(t, ""), newMachine("A", "B")
	all := m.disks
	m.disks = all[:1]
	p.Refuse = func(r *http.Request) int {
		if strings.HasSuffix(r.URL.Path, "/report") { // it has started, and read the disks once
			m.mu.Lock()
			m.disks = all
			m.mu.Unlock()
		}
		return 0
	}
	if err := run(t, p, m); err == nil || !strings.Contains(err.Error(), "2 disks qualify") {
		t.Errorf("got %v", err)
	}
	if !m.untouched() {
		t.Error("got a write, want none")
	}
}
