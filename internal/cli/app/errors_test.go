package app

import (
	"strings"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-metal/holdfast/client"
)

// TestRemedies checks the remedy for errors of the connection.
func TestRemedies(t *testing.T) {
	refused := func(msg string) error { return status.Error(codes.Unavailable, msg) }
	lost, err := status.New(codes.Unavailable, "no leader").WithDetails(
		&errdetails.ErrorInfo{Domain: client.ErrorDomain, Reason: client.ReasonNoLeader})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name string
		err  error
		want string
	}{
		{"no leader for a read", &client.CallError{Reads: true, Err: lost.Err()},
			"--stale reads what a peer without a leader has"},
		{"no leader for a write", &client.CallError{Err: lost.Err()},
			"nothing was changed: see: holdfast cluster status"},
		{"an HTTP port that answers", status.Error(codes.Unimplemented,
			"unexpected HTTP status code received from server: 404 (Not Found)"), "that is an HTTP port"},
		{"another version", status.Error(codes.Unimplemented, "unknown service"), "the server is another version"},
		{"a client certificate of another CA", refused("error reading server preface: remote error: tls: " +
			"unknown certificate authority"), "the cluster refuses the client certificate"},
		{"no client certificate", refused("error reading server preface: remote error: tls: certificate required"),
			"give --cert and --key"},
		{"no TLS in the client", refused("error reading server preface: EOF"), "give its CA with --ca"},
		{"the port of Raft", &client.CallError{Err: refused("missing selected ALPN property")},
			"is it the port of the gRPC API"},
		{"the port of gossip", &client.CallError{Err: refused("authentication handshake failed: EOF")},
			"is it the port of the gRPC API"},
		{"nothing listens", refused("connect: connection refused"), "does a peer run there"},
	} {
		if got := hint(tt.err); !strings.Contains(got, tt.want) {
			t.Errorf("%s: got %q, want %q in it", tt.name, got, tt.want)
		}
	}
}
