package joinwatch

import (
	"context"
	"net"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// gRPC and memberlist return texts instead of types for most of these errors.

const (
	noAnswer   = "does not answer"
	gossipPort = "join takes gossip addresses, port 7403 unless a peer is configured otherwise"
)

// absent reports whether a cause means that nothing runs there or nothing can be reached.
func absent(cause string) bool { return strings.HasPrefix(cause, noAnswer) }

// Refused reports whether a call failed because no process listens at the address.
func Refused(err error) bool {
	return strings.Contains(status.Convert(err).Message(), callCauses[0].sign)
}

// callCauses are parts of gRPC's errors, and the cause that each means. The first that fits counts.
var callCauses = [...]struct{ sign, cause string }{
	{"connection refused", noAnswer + ": connection refused"},
	{"no route to host", noAnswer + ": no route to host"},
	{"network is unreachable", noAnswer + ": network is unreachable"},
	{"i/o timeout", noAnswer + ": timeout"},
	{"deadline exceeded", noAnswer + ": timeout"},
	{"connection reset", noAnswer + ": connection reset"},
	{"not a peer of this cluster: ", ""},
	{"remote error: tls", "refuses the certificate of this peer: is it issued by the CA of that cluster, and valid?"},
	{"signed by unknown authority", "has a certificate of another CA: is tls_ca the same on both?"},
	{"failed to verify certificate: ", ""},
	{"first record does not look like a TLS handshake", "has no TLS, but this peer has"},
	{"error reading server preface", "closes the connection: does it require TLS?"},
}

// Call returns the cause of a failed call to another peer. It continues a sentence that begins
// with the name of the peer.
func Call(err error) string {
	msg := status.Convert(err).Message()
	if status.Code(err) == codes.DeadlineExceeded {
		return noAnswer + ": timeout"
	}
	for _, c := range callCauses {
		_, rest, ok := strings.Cut(msg, c.sign)
		switch {
		case ok && c.cause != "":
			return c.cause
		case ok:
			return "is not accepted: " + strings.TrimSuffix(rest, `"`)
		}
	}
	return "answers with an error: " + msg
}

// address returns the cause of a failed join at a gossip address.
func (w *Watch) address(ctx context.Context, addr string, err error) string {
	_, msg, _ := strings.Cut(strings.TrimSpace(err.Error()), "failed to join ") // memberlist lists errors in lines
	if _, cause, ok := strings.Cut(msg, ": "); ok {
		msg = cause
	} else {
		msg = err.Error()
	}
	is := func(part string) bool { return strings.Contains(msg, part) }
	switch {
	case is("no installed keys could decrypt"):
		return "encrypts with another gossip key: is gossip_key_file the same on both?"
	case is("remote state is encrypted and encryption is not configured"):
		return "encrypts gossip, but this peer has no gossip key: set gossip_key_file"
	case is("belongs to cluster"): // another cluster's identity, with the remedy
		return msg
	case is("no such host"), is("server misbehaving"):
		return noAnswer + ": the name is unknown"
	}
	for _, c := range callCauses {
		if is("dial tcp") && is(c.sign) && c.cause != "" {
			return c.cause
		}
	}
	switch w.service(ctx, addr) {
	case httpService:
		return "is an HTTP port: " + gossipPort
	case grpcService:
		return "is a gRPC port: " + gossipPort
	case raftService:
		return "is a Raft port: " + gossipPort
	}
	switch {
	case is("encryption is configured but remote state is not encrypted"):
		return "does not encrypt gossip, but this peer does: set the same gossip_key_file on both"
	case is("EOF"), is("connection reset"), is("broken pipe"), is("i/o timeout"):
		return "does not answer as a peer does: " + gossipPort
	}
	if host, _, err := net.SplitHostPort(addr); err != nil || host == "" {
		return "want host:port"
	}
	return msg
}
