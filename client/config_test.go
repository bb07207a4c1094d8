package client

import (
	"context"
	"crypto/tls"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDialChecksTheConfiguration(t *testing.T) {
	for _, tt := range []struct {
		name    string
		cfg     Config
		wantErr string
	}{
		{"no address", Config{}, "no address"},
		{"not an address", Config{Addrs: []string{"http://127.0.0.1:7400"}}, `"http://127.0.0.1:7400" is a URL: leave out "http://"`},
		{"empty address", Config{Addrs: []string{""}}, `address "" has no host: want host:port, such as 127.0.0.1:7400`},
		{"a port alone", Config{Addrs: []string{":7400"}}, "has no host"},
		{"no port behind the colon", Config{Addrs: []string{"peer:"}}, `has the port "", not 1 to 65535`},
		{"the port 0", Config{Addrs: []string{"peer:0"}}, `has the port "0"`},
		{"a large port", Config{Addrs: []string{"peer:99999"}}, `has the port "99999", not 1 to 65535`},
		{"a service", Config{Addrs: []string{"peer:http"}}, `has the port "http"`},
		{"a path", Config{Addrs: []string{"peer:7400/v1"}}, `has the port "7400/v1"`},
		{"a user", Config{Addrs: []string{"root@peer:7400"}}, "has no name of a host"},
		{"five numbers", Config{Addrs: []string{"10.0.0.0.1"}}, "four numbers from 0 to 255"},
		{"a large number", Config{Addrs: []string{"10.0.0.300:7400"}}, "four numbers from 0 to 255"},
		{"IPv6 without brackets", Config{Addrs: []string{"fe80:::1:7400"}}, "is not host:port"},
		{"IPv6 with a port, without brackets", Config{Addrs: []string{"::1:7400"}}, "write [::1]:7400 or [::1:7400]"},
		{"a zone", Config{Addrs: []string{"[fe80::1%eth0]:7400"}}, "has a zone"},
		{"a zone without brackets", Config{Addrs: []string{"fe80::1%eth0"}}, "has a zone"},
		{"a percent escape", Config{Addrs: []string{"peer%2d1:7400"}}, "a percent sign"},
		{"token in the clear", Config{Addrs: []string{"10.0.0.1:7400"}, Token: "s3cret"},
			"refusing to send the token without TLS"},
		{"tokens in the clear", Config{Addrs: []string{"10.0.0.1:7400"},
			Tokens: func(context.Context) (string, error) { return "s3cret", nil }}, "refusing to send the token without TLS"},
		{"token on loopback", Config{Addrs: []string{"127.0.0.1:7400", "[::1]:7400", "localhost:7400"}, Token: "s3cret"}, ""},
		{"token with TLS", Config{Addrs: []string{"10.0.0.1:7400"}, Token: "s3cret",
			TLS: &tls.Config{MinVersion: tls.VersionTLS13}}, ""},
		{"no token", Config{Addrs: []string{"10.0.0.1:7400"}}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, err := Dial(tt.cfg)
			if c != nil {
				defer func() { _ = c.Close() }()
			}
			switch {
			case tt.wantErr == "" && err != nil:
				t.Errorf("got error %v, want none", err)
			case tt.wantErr != "" && (err == nil || !strings.Contains(err.Error(), tt.wantErr)):
				t.Errorf("got error %v, want %q in it", err, tt.wantErr)
			case err != nil && tt.cfg.Token != "" && strings.Contains(err.Error(), tt.cfg.Token):
				t.Errorf("got the token in error %q", err)
			}
		})
	}
}

func TestAddressesGetTheDefaultPort(t *testing.T) {
	cfg, err := Config{Addrs: []string{"peer-1", " 10.0.0.1 ", "::1", "[fe80::1]", "peer-2:9000",
		"peer-1:7400"}}.withDefaults()
	want := []string{"peer-1:7400", "10.0.0.1:7400", "[::1]:7400", "[fe80::1]:7400", "peer-2:9000"}
	if diff := cmp.Diff(want, cfg.Addrs); diff != "" || err != nil {
		t.Errorf("got error %v, addresses (-want +got):\n%s", err, diff)
	}
}
