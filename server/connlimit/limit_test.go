package connlimit_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast-metal/holdfast/server/connlimit"
)

// serve accepts connections of real sockets within limits, and returns the address. Each accepted
// connection is sent to the channel.
func serve(t *testing.T, cfg connlimit.Config) (addr string, accepted <-chan net.Conn) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := connlimit.New(cfg).Listen(ln)
	t.Cleanup(func() { _ = l.Close() })
	conns := make(chan net.Conn, 100)
	go func() { // ends with the listener
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			conns <- c
		}
	}()
	return ln.Addr().String(), conns
}

func dial(t *testing.T, addr string) net.Conn {
	t.Helper()
	c, err := net.DialTimeout("tcp", addr, 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func next(t *testing.T, conns <-chan net.Conn) net.Conn {
	t.Helper()
	select {
	case c := <-conns:
		t.Cleanup(func() { _ = c.Close() })
		return c
	case <-time.After(30 * time.Second):
		t.Fatal("no connection was accepted")
		return nil
	}
}

// closed reports whether the other end has closed a connection within a time.
func closed(c net.Conn, within time.Duration) bool {
	_ = c.SetReadDeadline(time.Now().Add(within))
	_, err := c.Read(make([]byte, 1))
	slow, is := errors.AsType[net.Error](err)
	return err != nil && (!is || !slow.Timeout())
}

// TestLimits opens connections one after the other, and checks which ones are closed.
func TestLimits(t *testing.T) {
	const long = time.Hour
	for _, tt := range []struct {
		name     string
		cfg      connlimit.Config
		verified int // the first ones show a certificate
		open     int
		last     bool // the last one shows a certificate
		want     []int
	}{
		{"within the limits", connlimit.Config{Total: 3, PerAddress: 3, Reserve: 1, Idle: 1}, 0, 3, false, nil},
		{"idle ones, in all", connlimit.Config{Total: 2, PerAddress: 9, Reserve: 1, Idle: 1}, 0, 4, false, []int{0, 1}},
		{"idle ones, of an address", connlimit.Config{Total: 9, PerAddress: 2, Reserve: 1, Idle: 1}, 0, 3, false, []int{0}},
		{"busy ones: the new one has no certificate", connlimit.Config{Total: 2, PerAddress: 9, Reserve: 1, Idle: long,
			VerifyTime: 50 * time.Millisecond}, 0, 3, false, []int{2}},
		{"busy ones: the new one is an admin", connlimit.Config{Total: 2, PerAddress: 9, Reserve: 1, Idle: long,
			Verified: 1, VerifyTime: 50 * time.Millisecond}, 0, 3, true, nil},
		{"an admin behind many others", connlimit.Config{Total: 1, PerAddress: 9, Reserve: 2, Idle: long,
			Verified: 1, VerifyTime: long}, 0, 6, true, []int{1, 2, 3}},
		{"peers do not count", connlimit.Config{Total: 1, PerAddress: 1, Reserve: 1, Idle: long, Verified: 3,
			VerifyTime: long}, 3, 4, false, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			addr, conns := serve(t, tt.cfg)
			var clients []net.Conn
			for i := range tt.open {
				clients = append(clients, dial(t, addr))
				c := next(t, conns)
				if i < tt.verified || tt.last && i == tt.open-1 {
					c.(interface{ Verified() }).Verified()
				}
			}
			want := map[int]bool{}
			for _, i := range tt.want {
				want[i] = true
			}
			for i, c := range clients {
				within := 200 * time.Millisecond
				if want[i] {
					within = 30 * time.Second
				}
				if got := closed(c, within); got != want[i] {
					t.Errorf("connection %d: got closed %t, want %t", i, got, want[i])
				}
			}
		})
	}
}

// TestIdleConnectionsLeaveRoom holds many idle TLS connections to a server, which serves another
// caller nevertheless.
func TestIdleConnectionsLeaveRoom(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	cfg := connlimit.Config{Total: 20, PerAddress: 10, Reserve: 2, Idle: time.Millisecond, Registerer: reg}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "ok")
	}))
	s.Listener = connlimit.New(cfg).Listen(s.Listener)
	s.StartTLS()
	t.Cleanup(s.Close)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	d := &tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}}
	for range 60 {
		if c, err := d.DialContext(ctx, "tcp", s.Listener.Addr().String()); err == nil {
			t.Cleanup(func() { _ = c.Close() })
		}
	}
	deadline := time.Now().Add(30 * time.Second)
	for {
		res, err := s.Client().Get(s.URL)
		if err == nil {
			_ = res.Body.Close()
			break
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond) // sleep: poll
	}
	found, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range found {
		if v := f.GetMetric()[0].GetGauge().GetValue(); f.GetName() == "holdfast_connections" && v > 10 {
			t.Errorf("got %g connections, want at most 10", v)
		}
	}
}
