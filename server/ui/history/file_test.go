package history

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"log/slog"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/server/ui/history/series"
)

// during runs a history until a second before a time has passed, and returns after that second.
func during(t *testing.T, h *History, d time.Duration) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), d-time.Second)
	defer stop()
	if err := h.Run(ctx); err != nil {
		t.Errorf("Run: %v", err)
	}
	time.Sleep(time.Second) // sleep: fake clock
}

// site returns a cluster whose leader has one more command and error of a BMC at each sample.
func site() *leaders {
	n := uint64(0)
	return &leaders{all: []func() (string, *holdfastv1.PeerLoad, error){
		func() (string, *holdfastv1.PeerLoad, error) { n++; return says("n1", n, 0)() }}}
}

// TestRestart: a restarted peer has its old samples, and a gap for the time without it. Runs that
// ended meanwhile are added, and no run twice.
func TestRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, p := t.TempDir(), newPeer()
		p.Do(&internalv1.RegisterMachine{Machine: &holdfastv1.Machine{MachineId: "m-1"}})
		run := func(id string) {
			p.Now = time.Now()
			p.Do(&internalv1.StartRun{RunId: id, MachineId: "m-1", RequestId: id, PlanId: "plan/inspect",
				DefaultTimeoutSeconds: 60})
			if r := p.Do(&internalv1.CancelRun{RunId: id}); r.Err != nil {
				t.Fatal(r.Err)
			}
		}
		run("run-1")
		during(t, New(Config{Dir: dir}, site(), p), 2*time.Minute)
		time.Sleep(time.Minute) // sleep: fake clock; the peer is down
		run("run-2")
		time.Sleep(time.Minute) // sleep: fake clock
		h := New(Config{Dir: dir}, site(), p)
		during(t, h, 110*time.Second)
		w, q := h.Window(RangeOf("6h")), RangeOf("6h").levels
		for name, tt := range map[string]struct {
			line Line
			want []string
		}{
			"machines":   {w.Machines[1], []string{"?", "1", "1", "?", "?", "1", "1"}},
			"heartbeats": {w.Heartbeats, []string{"?", "3", "3", "?", "?", "3", "3"}},
			"errors":     {lineOf(h.bmcs, series.Sum, bmcErrors+"site", q, w.To), []string{"?", "5", "6", "?", "?", "5", "5"}},
			"canceled": {lineOf(h.fixed, series.Sum, runs+"CANCELED", q, w.To),
				[]string{"?", "1", "0", "0", "1", "0", "0"}},
		} {
			if diff := cmp.Diff(tt.want, newest(tt.line, len(tt.want))); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
		}
		if len(w.Leaders) != 1 || w.To.Sub(w.Leaders[0].At).Round(time.Second) != 350*time.Second {
			t.Errorf("leaders at %v: got %v, want n1 since the first start", w.To, w.Leaders)
		}
	})
}

// TestSkippedEvents: runs are unknown for the time whose events were deleted while the peer was
// down.
func TestSkippedEvents(t *testing.T) {
	h := New(Config{}, nil, newPeer())
	now := h.now()
	h.states.cursor, h.states.until = 1<<40, now.Add(-time.Hour) // a cursor beyond all events
	h.states.take(t.Context())
	got := newest(lineOf(h.fixed, series.Sum, runs+"FAILED", RangeOf("6h").levels, now), 3)
	if diff := cmp.Diff([]string{"?", "?", "0"}, got); diff != "" {
		t.Errorf("failed runs (-want +got):\n%s", diff)
	}
}

// TestInterval: the file is written every five minutes, so that a peer that dies keeps the rest.
func TestInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		begin(t, Config{Dir: dir}, site(), newPeer())
		var ages []string
		for range 4 {
			time.Sleep(150 * time.Second) // sleep: fake clock
			synctest.Wait()
			got := New(Config{Dir: dir}, site(), newPeer())
			got.load()
			w := got.Window(RangeOf("1h"))
			age := "none"
			for i, p := range w.Heartbeats.Points {
				if p.Periods > 0 {
					age = fmt.Sprint(10 * (len(w.Heartbeats.Points) - 1 - i))
				}
			}
			ages = append(ages, age)
		}
		if diff := cmp.Diff([]string{"none", "0", "150", "0"}, ages); diff != "" {
			t.Errorf("age of the newest saved sample in seconds (-want +got):\n%s", diff)
		}
	})
}

// FuzzDecode: a damaged or foreign file is an error, or its content can be shown and continued.
func FuzzDecode(f *testing.F) {
	h := New(Config{}, nil, newPeer())
	h.noteLeader(answer{at: h.start, leader: "n1"})
	data, err := encode(h.saved()) // without series, because large seeds make fuzzing slow
	if err != nil {
		f.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(data[1:]))
	if err != nil {
		f.Fatal(err)
	}
	plain, err := io.ReadAll(z)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add(plain)
	p := newPeer()
	f.Fuzz(func(t *testing.T, data []byte) {
		packed := bytes.NewBuffer([]byte{fileVersion})
		z := gzip.NewWriter(packed) // beyond the checksum
		_, _ = z.Write(data)
		_ = z.Close()
		for _, file := range [][]byte{data, packed.Bytes()} {
			s, err := decode(bytes.NewReader(file))
			if err != nil {
				continue
			}
			h := New(Config{}, site(), p)
			if h.restore(s) != nil {
				continue
			}
			h.take(t.Context())
			for _, r := range Ranges() {
				h.Window(r)
			}
		}
	})
}

// TestUnreadable: a file that cannot be used is a warning, and the charts begin again.
func TestUnreadable(t *testing.T) {
	good := func(change func(*saved)) []byte {
		h := New(Config{}, nil, newPeer())
		h.fixed.Add(heartbeats, series.Mean, h.now(), 3)
		s := h.saved()
		change(&s)
		data, err := encode(s)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	same := good(func(*saved) {})
	damaged := bytes.Clone(same)
	damaged[len(damaged)/2] ^= 1
	soon := time.Now().Add(time.Hour)
	for name, tt := range map[string]struct {
		file []byte
		want string // in the log
	}{
		"readable": {same, ""},
		"empty":    {nil, "read version: EOF"},
		"foreign":  {[]byte("Hello"), "version 72: want 1"},
		"newer":    {append([]byte{2}, same[1:]...), "version 2: want 1"},
		"short":    {same[:len(same)/2], "unexpected EOF"},
		"damaged":  {damaged, "decode the charts"},
		"longer":   {append(bytes.Clone(same), 0), "decode the charts"},
		"bomb": {good(func(s *saved) { s.Leaders = []Leader{{ID: strings.Repeat("x", maxFile)}} }),
			"more than 2097152 bytes"},
		"leaders": {good(func(s *saved) { s.Leaders = make([]Leader, maxLeaders+1) }), "load 201 leaders"},
		"late":    {good(func(s *saved) { s.Leaders = []Leader{{At: soon}} }), "no time after"},
		"until":   {good(func(s *saved) { s.Until = soon }), "no time after"},
		"fixed":   {good(func(s *saved) { s.Fixed = series.Saved{} }), "load 0 series"},
		"BMCs":    {good(func(s *saved) { s.BMCs = series.Saved{} }), "load 0 series"},
	} {
		t.Run(name, func(t *testing.T) {
			dir, log := t.TempDir(), new(bytes.Buffer)
			if err := os.WriteFile(filepath.Join(dir, fileName), tt.file, 0o600); err != nil {
				t.Fatal(err)
			}
			h := New(Config{Dir: dir, Logger: slog.New(slog.NewTextHandler(log, nil))}, site(), newPeer())
			ended, end := context.WithCancel(t.Context())
			end()
			if err := h.Run(ended); err != nil {
				t.Errorf("Run: %v", err)
			}
			if got := log.String(); (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
				t.Errorf("log: got %q, want %q", got, tt.want)
			}
			if got := h.fixed.Names(); !slices.Contains(got, heartbeats) {
				t.Errorf("got series %q, want heartbeats", got)
			}
			log.Reset()
			New(h.cfg, site(), newPeer()).load()
			if log.Len() > 0 {
				t.Errorf("log of the next start: got %q, want none", log)
			}
		})
	}
}

// TestMaximum: a file with all series, full of values that do not compress, is within the
// maximum, which is also that of reading.
func TestMaximum(t *testing.T) {
	h := New(Config{}, nil, newPeer())
	rng := rand.New(rand.NewPCG(1, 2))
	for s, n := range map[*series.Store]int{h.fixed: maxFixed, h.bmcs: maxProviders} {
		for i := range n {
			for _, r := range resolutions() {
				for p := range r.Keep {
					s.Add(fmt.Sprint(i, strings.Repeat("n", 250)), series.Mean,
						h.start.Add(-time.Duration(p)*r.Every), float64(math.Float32frombits(rng.Uint32())))
				}
			}
		}
	}
	for i := range maxLeaders {
		h.noteLeader(answer{at: h.start, leader: fmt.Sprint(i, strings.Repeat("n", 250))})
	}
	data, err := encode(h.saved())
	if err != nil || len(data) > maxFile {
		t.Fatalf("got %d bytes and %v, want at most %d", len(data), err, maxFile)
	}
	s, err := decode(bytes.NewReader(data))
	if err == nil {
		err = New(Config{}, nil, newPeer()).restore(s)
	}
	if err != nil {
		t.Error(err)
	}
	t.Logf("%d bytes", len(data))
}
