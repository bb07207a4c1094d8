package client

import "testing"

func TestTidy(t *testing.T) {
	const addr = "10.0.0.1:7400"
	for _, tt := range []struct{ in, want string }{
		{`connection error: desc = "transport: Error while dialing: dial tcp ` + addr + `: connect: connection refused"`,
			"connect: connection refused"},
		{`connection error: desc = "transport: Error while dialing: dial tcp: lookup n1: no such host"`,
			"lookup n1: no such host"},
		{`connection error: desc = "transport: authentication handshake failed: tls: failed to verify certificate: x509: x"`,
			"tls: failed to verify certificate: x509: x"},
		{`connection error: desc = "error reading server preface: remote error: tls: certificate required"`,
			"remote error: tls: certificate required"},
		{`connection error: desc = "error reading server preface: EOF"`, "it closes the connection"},
		{`connection error: desc = "error reading server preface: http2: failed reading the frame payload: http2: frame too ` +
			`large, note that the frame header looked like an HTTP/1.1 header"`, "it answers in HTTP/1.1"},
		{`connection error: desc = "transport: authentication handshake failed: EOF"`, "it closes the connection"},
		{`connection error: desc = "transport: authentication handshake failed: credentials: cannot check peer: missing ` +
			`selected ALPN property. If you upgraded from"`, "it uses TLS, but does not speak gRPC"},
		{"no leader", "no leader"},
	} {
		if got := tidy(tt.in, addr); got != tt.want {
			t.Errorf("tidy(%s): got %q, want %q", tt.in, got, tt.want)
		}
	}
}
