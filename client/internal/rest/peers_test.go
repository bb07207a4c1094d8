package rest

import (
	"strings"
	"testing"
)

func TestNewChecksAddresses(t *testing.T) {
	token := StaticToken("s3cret")
	tests := []struct {
		name string
		cfg  Config
		want string // part of the error; empty: none
	}{
		{"https", Config{URLs: []string{"https://peer-1:7401", " https://peer-2:7401/ "}, Tokens: token}, ""},
		{"below a path", Config{URLs: []string{"https://gw/holdfast/"}, Tokens: token}, ""},
		{"loopback", Config{URLs: []string{"http://127.0.0.1:1994", "http://localhost:1994", "http://[::1]:1"},
			Tokens: token}, ""},
		{"no token", Config{URLs: []string{"http://orchestrator:8080"}}, ""},
		{"an empty token", Config{URLs: []string{"http://orchestrator:8080"}, Tokens: StaticToken("")}, ""},
		{"plaintext allowed", Config{URLs: []string{"http://orchestrator:8080"}, Tokens: token, AllowPlaintext: true}, ""},
		{"plaintext", Config{URLs: []string{"https://a", "http://orchestrator:8080"}, Tokens: token},
			"refusing to send a token over http"},
		{"plaintext by number", Config{URLs: []string{"http://10.0.0.1:8080"}, Tokens: token},
			"refusing to send a token over http"},
		{"a name that begins like loopback", Config{URLs: []string{"http://localhost.example.com"}, Tokens: token},
			"refusing to send"},
		{"none", Config{}, "no address"},
		{"empty", Config{URLs: []string{""}}, "not a base URL"},
		{"no scheme", Config{URLs: []string{"peer-1:7401"}}, "not a base URL"},
		{"another scheme", Config{URLs: []string{"ftp://peer-1"}}, "not a base URL"},
		{"a query", Config{URLs: []string{"https://peer-1?x=y"}}, "not a base URL"},
		{"a password", Config{URLs: []string{"https://me:hunter2@peer-1"}}, "contains a password"},
		{"nonsense with a password", Config{URLs: []string{"https://me:hunter2@peer-1:port"}}, "not a URL"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, err := New(tt.cfg)
			if err == nil {
				p.Close()
			}
			switch {
			case tt.want == "" && err != nil:
				t.Errorf("New: %v", err)
			case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("New: got %v, want an error with %q", err, tt.want)
			case err != nil && (strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "s3cret")):
				t.Errorf("got a secret in the error: %v", err)
			}
		})
	}
}

// Clients with one list start at different addresses.
func TestNewBeginsAnywhere(t *testing.T) {
	seen := make(map[int]int)
	for range 300 {
		p, err := New(Config{URLs: []string{"https://a", "https://b", "https://c"}})
		if err != nil {
			t.Fatal(err)
		}
		seen[p.order.List()[0]]++
	}
	for i := range 3 {
		if seen[i] < 50 {
			t.Errorf("got %d of 300 clients that begin with address %d", seen[i], i)
		}
	}
}
