package client

import "testing"

func TestTidy(t *testing.T) {
	const addr = "10.0.0.1:7400"
	for _, tt := range []struct{ in, want string }{
		{`connection error: desc = "transport: Error while dialing: dial tcp ` + addr + `: connect: connection refused"`,
			"connection refused"},
		{`connection error: desc = "transport: Error while dialing: dial tcp: lookup n1: no such host"`,
			"there is no host n1"},
		{`connection error: desc = "transport: Error while dialing: dial tcp: lookup n1 on 10.0.0.9:53: ` +
			`network is unreachable"`, "the name n1 cannot be looked up: network is unreachable"},
		{`connection error: desc = "transport: Error while dialing: dial tcp 10.0.0.7:7400: connect: no route to host"`,
			"no route to host"}, // the address was a name
		{`connection error: desc = "transport: authentication handshake failed: tls: failed to verify certificate: x509: ` +
			`certificate signed by unknown authority (possibly because of \"x509: ECDSA verification failure\" while)"`,
			"its certificate is not accepted: it is issued by another CA"},
		{`connection error: desc = "transport: authentication handshake failed: tls: failed to verify certificate: x509: ` +
			`certificate is valid for 127.0.0.1, not 10.0.0.1"`,
			"its certificate is not accepted: certificate is valid for 127.0.0.1, not 10.0.0.1"},
		{`connection error: desc = "error reading server preface: remote error: tls: unknown certificate authority"`,
			"it refuses the client certificate: unknown certificate authority"},
		{`connection error: desc = "transport: authentication handshake failed: tls: failed to verify certificate: x509: x"`,
			"its certificate is not accepted: x"},
		{`connection error: desc = "error reading server preface: remote error: tls: certificate required"`,
			"it requires a client certificate"},
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
