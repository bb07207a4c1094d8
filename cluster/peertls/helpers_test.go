package peertls_test

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-metal/holdfast/cluster/peertls"
	"github.com/holdfast-metal/holdfast/cluster/peertls/issue"
)

var never = time.Now().Add(365 * 24 * time.Hour)

func newCA(t testing.TB, cluster string) *issue.CA {
	t.Helper()
	ca, err := issue.NewCA(cluster, never)
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

func must(t testing.TB) func(issue.Pair, error) issue.Pair {
	return func(p issue.Pair, err error) issue.Pair {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
}

// files are a peer's three files.
type files struct {
	t   testing.TB
	dir string
}

func newFiles(t testing.TB, ca []byte, p issue.Pair) files {
	f := files{t: t, dir: t.TempDir()}
	f.write(ca, p)
	return f
}

func (f files) path(name string) string { return filepath.Join(f.dir, name) }

func (f files) write(ca []byte, p issue.Pair) {
	f.t.Helper()
	for name, b := range map[string][]byte{"ca.pem": ca, "cert.pem": p.Cert, "key.pem": p.Key} {
		f.put(name, b)
	}
}

// put replaces one file atomically.
func (f files) put(name string, b []byte) {
	f.t.Helper()
	tmp := f.path("." + name)
	if err := os.WriteFile(tmp, b, 0o600); err != nil {
		f.t.Fatal(err)
	}
	if err := os.Rename(tmp, f.path(name)); err != nil {
		f.t.Fatal(err)
	}
}

func (f files) config(id string) peertls.Config {
	return peertls.Config{CA: f.path("ca.pem"), Cert: f.path("cert.pem"), Key: f.path("key.pem"), PeerID: id,
		Interval: 10 * time.Millisecond}
}

// open opens the store of a peer with a certificate of that CA.
func open(t testing.TB, ca *issue.CA, cluster, id string) *peertls.Store {
	t.Helper()
	s, err := peertls.Open(newFiles(t, ca.Pair.Cert, must(t)(ca.Peer(cluster, id, nil, never))).config(id))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// logged is a log that tests can read.
type logged struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func (l *logged) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }
