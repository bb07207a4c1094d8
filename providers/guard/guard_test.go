package guard_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/guard"
)

// slowly blocks until a time and then reads, so that the request has its connection before, and is
// written after.
type slowly struct {
	until time.Time
	io.Reader
}

func (s slowly) Read(b []byte) (int, error) {
	time.Sleep(time.Until(s.until)) // sleep: the purpose of this reader
	return s.Reader.Read(b)
}

func TestTransport(t *testing.T) {
	const valid = 30 * time.Millisecond
	for _, tc := range []struct {
		name   string
		late   bool
		warm   bool                            // the request reuses a connection
		dial   time.Duration                   // duration of connecting
		body   func(until time.Time) io.Reader // nil: ordinary
		before time.Duration                   // the age of the not-after time
	}{
		{name: "in time"},
		{name: "in time, reused connection", warm: true},
		{name: "late from the start", late: true, before: valid + time.Nanosecond},
		{name: "late after connecting", late: true, dial: 2 * valid},
		{name: "late at the write", late: true,
			body: func(until time.Time) io.Reader { return slowly{until, strings.NewReader("off")} }},
		{name: "late at the write, reused connection", late: true, warm: true,
			body: func(until time.Time) io.Reader { return slowly{until, strings.NewReader("off")} }},
		{name: "late in the middle", late: true, body: func(until time.Time) io.Reader {
			return io.MultiReader(strings.NewReader(strings.Repeat("x", 64<<10)), slowly{until, strings.NewReader("off")})
		}},
	} {
		for _, secure := range []bool{false, true} {
			name := tc.name
			if secure {
				name += ", TLS"
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				var done atomic.Int32
				s := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
					if _, err := io.ReadAll(r.Body); err == nil && r.Method == http.MethodPost {
						done.Add(1)
					}
				}))
				if secure {
					s.StartTLS()
				} else {
					s.Start()
				}
				t.Cleanup(s.Close)
				base := &http.Transport{DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
					time.Sleep(tc.dial) // sleep: the duration of connecting
					return new(net.Dialer).DialContext(ctx, network, addr)
				}}
				if secure {
					base.TLSClientConfig = s.Client().Transport.(*http.Transport).TLSClientConfig
				}
				c := &http.Client{Transport: guard.Transport(base)}
				t.Cleanup(c.CloseIdleConnections)
				get := func() {
					t.Helper()
					res, err := c.Get(s.URL)
					if err != nil {
						t.Fatalf("read: %v", err)
					}
					_, _ = io.Copy(io.Discard, res.Body)
					_ = res.Body.Close()
				}
				if tc.warm {
					get()
				}
				until := time.Now().Add(valid - tc.before)
				if !tc.late {
					until = until.Add(time.Minute)
				}
				body := io.Reader(strings.NewReader("off"))
				if tc.body != nil {
					body = tc.body(until)
				}
				req, err := http.NewRequestWithContext(providers.WithNotAfter(t.Context(), until), http.MethodPost, s.URL, body)
				if err != nil {
					t.Fatal(err)
				}
				res, err := c.Do(req)
				if err == nil {
					_ = res.Body.Close()
				}
				want := int32(1)
				if tc.late {
					want = 0
					if providers.ClassOf(err) != providers.Late {
						t.Errorf("got %v, want class late", err)
					}
				} else if err != nil {
					t.Error(err)
				}
				get() // the refusal of a request does not affect its connection
				s.Close()
				if n := done.Load(); n != want {
					t.Errorf("got %d served requests, want %d", n, want)
				}
			})
		}
	}
}
