package machine

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-metal/holdfast/client/internal/rest"
)

// cell is a gateway that enrolls. It accepts the machine's own token after a registration with its
// hash, and the enrollment token for registrations only.
type cell struct {
	gateway

	mu       sync.Mutex
	enroll   string          // the enrollment token
	own      map[string]bool // by SHA-256 in hex; false: revoked
	answers  bool            // confirms enrollments in its answers, unlike an older gateway
	lost     int             // number of registrations whose answers are lost
	enrolled int
}

func (c *cell) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	sent := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	sum := sha256.Sum256([]byte(sent))
	registration := r.URL.Path == pathRegister
	switch {
	case c.own[hex.EncodeToString(sum[:])]:
	case sent != c.enroll:
		answer(w, 401, `{"message":"Unauthorized"}`)
		return
	case !registration && c.answers:
		answer(w, 403, `{"message":"Invalid token","error_code":"invalid_token"}`)
		return
	}
	r.Header.Set("Authorization", "Bearer "+c.token)
	c.gateway.ServeHTTP(w, r)
}

// handler serves the cell. The gateway reads the body of a registration, so its answer is changed
// afterwards.
func (c *cell) handler(w http.ResponseWriter, r *http.Request) {
	buffered := &memory{header: http.Header{}}
	c.ServeHTTP(buffered, r)
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.URL.Path == pathRegister && buffered.status == 200 {
		if sum, _ := c.lastReg["token_sha256"].(string); sum != "" && c.answers {
			if _, known := c.own[sum]; !known {
				c.own[sum] = true
				c.enrolled++
			}
			buffered.body = strings.Replace(buffered.body, `"status"`, fmt.Sprintf(`"token_id":"tok-%d","status"`, c.enrolled),
				1)
		}
		if c.lost > 0 {
			c.lost--
			buffered.status, buffered.body = 502, "<html>"
		}
	}
	maps.Copy(w.Header(), buffered.header)
	w.WriteHeader(buffered.status)
	_, _ = w.Write([]byte(buffered.body))
}

// revoke revokes all own tokens.
func (c *cell) revoke() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for sum := range c.own {
		c.own[sum] = false
	}
}

func (c *cell) set(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f()
}

type memory struct {
	header http.Header
	status int
	body   string
}

func (m *memory) Header() http.Header { return m.header }
func (m *memory) WriteHeader(s int)   { m.status = s }
func (m *memory) Write(b []byte) (int, error) {
	m.body += string(b)
	return len(b), nil
}

// TestEnroll checks that the agent enrolls once, continues with its own token, also after a
// restart, and enrolls again when that is revoked.
func TestEnroll(t *testing.T) {
	tests := []struct {
		name     string
		answers  bool
		lost     int
		expires  bool // the enrollment token expires right after the registration whose answer was lost
		ready    bool
		enrolled int
	}{
		{"enrolled", true, 0, false, true, 1},
		{"lost answer", true, 2, false, true, 1},
		{"lost answer and expired token", true, 1, true, true, 1},
		{"a server that enrolls nobody", false, 0, false, true, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				c := &cell{gateway: gateway{token: "inner", pool: "gpu"}, enroll: "abc123", own: map[string]bool{},
					answers: tt.answers, lost: tt.lost}
				cfg := enrolling(c, dir)
				a, stop := start(t, cfg, worker())
				if tt.expires {
					sleep(100 * time.Millisecond)
					c.set(func() { c.enroll = "expired" })
				}
				sleep(2 * time.Minute)
				if s := a.Status(); s.Ready != tt.ready {
					t.Fatalf("got status %+v, want ready: %t", s, tt.ready)
				}
				stop()
				if c.enrolled != tt.enrolled {
					t.Errorf("got %d enrollments, want %d", c.enrolled, tt.enrolled)
				}
				if !tt.answers {
					return
				}
				c.set(func() { c.enroll = "expired" }) // no longer needed
				a, stop = start(t, cfg, worker())
				sleep(time.Minute)
				if s := a.Status(); !s.Ready {
					t.Errorf("after a restart: got status %+v, want ready", s)
				}
				c.revoke()
				c.set(func() { c.enroll = "abc123" })
				sleep(2 * time.Minute)
				if s := a.Status(); !s.Ready || c.enrolled != tt.enrolled+1 {
					t.Errorf("after the revocation: got status %+v, %d enrollments, want ready and one more", s, c.enrolled)
				}
				stop()
			})
		})
	}
}

// enrolling returns the configuration of an agent that enrolls with abc123. The file has mode 0600,
// and no log or error contains the value.
func enrolling(c *cell, dir string) Config {
	n := cluster(&c.gateway)
	for _, host := range []string{"a", "b", "c"} {
		n.Serve(host, c.handler)
	}
	cfg := config(n)
	cfg.OwnTokenFile = filepath.Join(dir, "token.json")
	return cfg
}

// TestOwnTokenFile checks that only the owner can read the file, and only the machine can use it.
func TestOwnTokenFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token.json")
	c, err := newCredentials(path, "m-1", rest.StaticToken("given"))
	if err != nil {
		t.Fatal(err)
	}
	sum, err := c.enrollment(t.Context())
	if err != nil || len(sum) != 64 {
		t.Fatalf("enrollment: got %q, %v", sum, err)
	}
	if err := c.enrolled(); err != nil {
		t.Fatal(err)
	}
	own, err := c.Token(t.Context())
	if got := sha256.Sum256([]byte(own)); err != nil || hex.EncodeToString(got[:]) != sum || len(own) != 86 {
		t.Errorf("Token: got %d bytes, %v, want the enrolled token", len(own), err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("file: got %v, %v, want mode 0600", info.Mode(), err)
	}
	for id, want := range map[string]string{"m-1": own, "m-2": "given"} { // a copied disk
		again, err := newCredentials(path, id, rest.StaticToken("given"))
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := again.Token(t.Context()); got != want {
			t.Errorf("%s: got another token", id)
		}
	}
	if c, err := newCredentials(path+".none", "m-1", rest.StaticToken("")); err != nil {
		t.Fatal(err)
	} else if sum, err := c.enrollment(t.Context()); sum != "" || err != nil {
		t.Errorf("enrollment without a token: got %q, %v, want none", sum, err)
	}
}
