package images

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// sparse returns a sparse file of a size.
func sparse(t *testing.T, size int64) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "disk")
	if err := os.WriteFile(name, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(name, size); err != nil {
		t.Fatal(err)
	}
	return name
}

// TestOneAddressLeavesSlots checks that one address can use only a part of the download slots, and
// releases them.
func TestOneAddressLeavesSlots(t *testing.T) {
	p := &downloadLimit{of: map[string]int{}}
	for i := range maxOfOne {
		if err := p.acquire("10.0.0.66"); err != nil {
			t.Fatalf("slot %d: %v", i, err)
		}
	}
	if err := p.acquire("10.0.0.66"); err == nil {
		t.Errorf("got more than %d slots for one address", maxOfOne)
	}
	for i := range maxDownloads - maxOfOne {
		if err := p.acquire(strconv.Itoa(i)); err != nil {
			t.Fatalf("address %d: %v", i, err)
		}
	}
	if err := p.acquire("10.0.0.5"); err == nil {
		t.Errorf("got more than %d slots", maxDownloads)
	}
	p.release("10.0.0.66")
	if err := p.acquire("10.0.0.5"); err != nil {
		t.Errorf("released slot: %v", err)
	}
	for range maxOfOne - 1 {
		p.release("10.0.0.66")
	}
	p.release("10.0.0.5")
	for i := range maxDownloads - maxOfOne {
		p.release(strconv.Itoa(i))
	}
	if p.all != 0 || len(p.of) != 0 {
		t.Errorf("after all were released: got %d slots in use by %v", p.all, p.of)
	}
}

// TestStalledDownloadEnds checks that a client that stops reading is disconnected after the slack,
// however large the file is. A client that reads gets all of it.
func TestStalledDownloadEnds(t *testing.T) {
	const size = 64 << 20
	name, ended := sparse(t, size), make(chan float64, 2)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sent := 0.0
		c := newCounted(w, func(n float64) { sent += n }, 500*time.Millisecond)
		defer func() { ended <- sent }()
		defer c.done()
		f, err := os.Open(name)
		if err != nil {
			return
		}
		defer func() { _ = f.Close() }()
		http.ServeContent(c, r, "", time.Time{}, f)
	}))
	defer srv.Close()
	stalled, err := net.Dial("tcp", srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stalled.Close() }()
	if _, err := io.WriteString(stalled, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	select {
	case sent := <-ended:
		if sent >= size {
			t.Errorf("got %g bytes sent to a client that reads nothing", sent)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("client that reads nothing: got an open connection")
	}
	resp, err := http.Get(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if n, err := io.Copy(io.Discard, resp.Body); n != size || err != nil {
		t.Errorf("client that reads: got %d bytes, %v, want %d", n, err, size)
	}
	if sent := <-ended; sent != size {
		t.Errorf("got a count of %g bytes, want %d", sent, size)
	}
}
