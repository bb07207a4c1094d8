package auth

import (
	"net/http"
	"testing"
)

// TestForeignHosts checks that a page of evil.example whose name resolves to this host
// (DNS rebinding) cannot reach a peer without authentication.
func TestForeignHosts(t *testing.T) {
	f := &fakeRecords{}
	open, _ := site(t, f, Config{Insecure: true}, nil)
	secure, _ := site(t, f, Config{}, nil)
	for _, tt := range []struct {
		host                 string
		role, public, secure int // status of a route with a role, of a public one, and of a public one with authentication
	}{
		{"localhost", 200, 200, 200},
		{"LocalHost:7401", 200, 200, 200},
		{"localhost.:7401", 200, 200, 200},
		{"127.0.0.1", 200, 200, 200},
		{"127.0.0.1:7401", 200, 200, 200},
		{"127.1.2.3:7401", 200, 200, 200},
		{"[::1]", 200, 200, 200},
		{"[::1]:7401", 200, 200, 200},
		{"[::ffff:127.0.0.1]:7401", 200, 200, 200},
		{"10.0.2.2:7401", 403, 200, 200}, // the host of a virtual machine
		{"[2001:db8::1]:7401", 403, 200, 200},
		{"evil.example:7401", 403, 403, 200},
		{"evil.example", 403, 403, 200},
		{"localhost.evil.example:7401", 403, 403, 200},
		{"127.0.0.1.evil.example:7401", 403, 403, 200},
	} {
		get := func(url string) int {
			t.Helper()
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Host = tt.host
			req.Header.Set("Origin", "http://"+tt.host)
			req.Header.Set("Sec-Fetch-Site", "same-origin")
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
			return resp.StatusCode
		}
		if got := get(open.URL + "/plain"); got != tt.role {
			t.Errorf("%s, a route with a role: got %d, want %d", tt.host, got, tt.role)
		}
		if got := get(open.URL + "/open"); got != tt.public {
			t.Errorf("%s, a public route: got %d, want %d", tt.host, got, tt.public)
		}
		if got := get(secure.URL + "/open"); got != tt.secure {
			t.Errorf("%s, with authentication: got %d, want %d", tt.host, got, tt.secure)
		}
	}
}
