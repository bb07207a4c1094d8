package gossip

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// safeBuffer collects a log that several goroutines write.
type safeBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// listening opens a real port of gossip, and returns the number of what it has refused.
func listening(
	t *testing.T, keyFile string, limit func(net.Listener) net.Listener,
) (*Gossip, *atomic.Int64, *safeBuffer) {
	t.Helper()
	log, refused := &safeBuffer{}, &atomic.Int64{}
	g, err := Open(Config{PeerID: "p1", Addr: "127.0.0.1:0", KeyFile: keyFile, KeyInterval: time.Hour, Multiplier: 1,
		Limit: limit, Refused: func() { refused.Add(1) },
		Logger: slog.New(slog.NewTextHandler(log, nil))},
		func() *internalv1.GossipMeta { return &internalv1.GossipMeta{Id: "p1"} })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.Close(false) })
	return g, refused, log
}

func sendJunk(t *testing.T, network, to string, junk []byte) {
	t.Helper()
	c, err := net.Dial(network, to)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if _, err := c.Write(junk); err != nil {
		t.Fatal(err)
	}
	if tcp, ok := c.(*net.TCPConn); ok { // what has arrived is read before the end
		_ = tcp.CloseWrite()
		_ = tcp.SetReadDeadline(time.Now().Add(30 * time.Second))
		_, _ = tcp.Read(make([]byte, 64))
	}
}

// TestJunkIsCounted sends each kind of packet and connection that no peer of the cluster sends.
func TestJunkIsCounted(t *testing.T) {
	key := make([]byte, 32)
	_, _ = rand.Read(key)
	file := filepath.Join(t.TempDir(), "gossip.key")
	if err := os.WriteFile(file, []byte(base64.StdEncoding.EncodeToString(key)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	label := func(name string, rest ...byte) []byte {
		return append(append([]byte{244, byte(len(name))}, name...), rest...)
	}
	long := bytes.Repeat([]byte{7}, 400)
	for _, tt := range []struct {
		name, network string
		keyed         bool
		junk          []byte
	}{
		{"no label", "udp", true, []byte("GET / HTTP/1.1")},
		{"another cluster's label", "udp", true, label("other", long...)},
		{"a label without its end", "udp", true, []byte{244, 200, 'x'}},
		{"two labels", "udp", true, label("holdfast", label("holdfast", long...)...)},
		{"another key", "udp", true, label("holdfast", long...)},
		{"nothing behind the label", "udp", true, label("holdfast")},
		{"no key at all", "udp", true, label("holdfast", 0, 0x81, 0xa4)},
		{"a type that does not exist", "udp", false, label("holdfast", 99, 1, 2, 3)},
		{"a ping that is none", "udp", false, label("holdfast", 0, 0xc1, 0xff)},
		{"a part of several that is missing", "udp", false, label("holdfast", 7, 200)},
		{"compressed, but not", "udp", false, label("holdfast", 9, 1, 2, 3)},
		{"a wrong checksum", "udp", false, label("holdfast", 12, 1, 2, 3, 4, 0, 0, 0)},
		{"a web request", "tcp", true, []byte("GET / HTTP/1.1\r\n\r\n")},
		{"a connection of another cluster", "tcp", true, label("other", 6)},
		{"a connection without the key", "tcp", true, label("holdfast", 6)},
		{"a connection of no type", "tcp", false, label("holdfast", 99)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			keyFile := ""
			if tt.keyed {
				keyFile = file
			}
			g, refused, log := listening(t, keyFile, nil)
			deadline := time.Now().Add(30 * time.Second)
			for refused.Load() == 0 {
				if time.Now().After(deadline) {
					t.Fatalf("got no refusal; log:\n%s", log)
				}
				sendJunk(t, tt.network, g.Addr(), tt.junk)
				time.Sleep(10 * time.Millisecond) // sleep: poll
			}
			if !strings.Contains(log.String(), "gossip refused") {
				t.Errorf("got no line about the refusal; log:\n%s", log)
			}
		})
	}
}

// TestJunkFillsNoLog floods the port, and finds one line.
func TestJunkFillsNoLog(t *testing.T) {
	t.Parallel()
	g, refused, log := listening(t, "", nil)
	c, err := net.Dial("udp", g.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	began := time.Now()
	for refused.Load() < 2000 { // the kernel may drop some
		if time.Since(began) > time.Minute {
			t.Fatalf("got %d refusals, want 2000", refused.Load())
		}
		for i := range 50 {
			_, _ = fmt.Fprintf(c, "junk %d", i)
		}
		time.Sleep(time.Millisecond) // sleep: poll
	}
	most := 1 + int(time.Since(began)/time.Minute)
	if got := strings.Count(log.String(), "level=WARN"); got < 1 || got > most {
		t.Errorf("got %d lines, want 1 to %d:\n%s", got, most, log)
	}
}

// TestStreamsAreLimited checks that every accepted connection passes the limit, that peers can
// still join, and that the port closes.
func TestStreamsAreLimited(t *testing.T) {
	t.Parallel()
	var passed atomic.Int64
	g, _, _ := listening(t, "", func(l net.Listener) net.Listener { return countedListener{l, &passed} })
	other, err := Open(Config{PeerID: "p2", Addr: "127.0.0.1:0", Multiplier: 1, Logger: slog.New(slog.DiscardHandler)},
		func() *internalv1.GossipMeta { return &internalv1.GossipMeta{Id: "p2"} })
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close(false)
	if _, err := other.list.Join([]string{g.Addr()}); err != nil {
		t.Fatal(err)
	}
	if passed.Load() == 0 {
		t.Error("got a connection that has not passed the limit")
	}
	before := passed.Load()
	g.Close(false)
	// Another process may have the port by now.
	if c, err := net.DialTimeout("tcp", g.Addr(), time.Second); err == nil {
		_ = c.Close()
	}
	if got := passed.Load() - before; got > 0 {
		t.Errorf("got %d connections after the port was closed", got)
	}
}

type countedListener struct {
	net.Listener
	n *atomic.Int64
}

func (l countedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil {
		l.n.Add(1)
	}
	return c, err
}
