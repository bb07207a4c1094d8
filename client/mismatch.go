package client

import (
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// mismatchTime is how long errors of a mismatch are retried. A peer or this process may be
// replacing its certificate.
const mismatchTime = 700 * time.Millisecond

// mismatchSigns are parts of gRPC's messages for connections that fail because the settings of
// both sides do not fit. gRPC returns no types for them.
var mismatchSigns = [...]string{
	"tls: failed to verify certificate",               // a server of another CA, or for another name
	"remote error: tls:",                              // the server refuses the client certificate
	"first record does not look like a TLS handshake", // a server without TLS
	httpSign, // an HTTP port
	alpnSign,
}

const (
	httpSign = "looked like an HTTP/1.1 header"
	alpnSign = "missing selected ALPN property" // a TLS port that is not gRPC, such as that of Raft
)

// plainSign is the message of a client without TLS that has reached a server with TLS. With TLS
// it also appears if a load balancer has no server at the moment.
const plainSign = "error reading server preface: EOF"

// mismatched reports whether a call failed because the settings of the client and the server do
// not fit. The next try fails in the same way.
func mismatched(err error, tls bool) bool {
	if status.Code(err) != codes.Unavailable {
		return false
	}
	msg := status.Convert(err).Message()
	return !tls && strings.Contains(msg, plainSign) ||
		slices.ContainsFunc(mismatchSigns[:], func(sign string) bool { return strings.Contains(msg, sign) })
}

// mismatches counts the tries of a call that failed by a mismatch, without any other failure
// in between.
type mismatches struct {
	tries int
	since time.Time
}

func (m *mismatches) note(err error, tls bool) {
	if !mismatched(err, tls) {
		m.tries = 0
		return
	}
	if m.tries == 0 {
		m.since = time.Now()
	}
	m.tries++
}

// permanent reports whether each of the addresses has failed by a mismatch for long enough.
func (m *mismatches) permanent(addresses int) bool {
	return m.tries > addresses && time.Since(m.since) >= mismatchTime
}
