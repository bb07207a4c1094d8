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

// vagueSigns are parts of gRPC's messages for a connection that the server has closed. A server
// that refuses the client certificate closes it too, and its reason may be lost.
var vagueSigns = [...]string{"connection reset by peer", "broken pipe", "EOF", "use of closed network connection",
	"connection is closing"}

// vague reports whether an error names no cause of its own.
func vague(err error) bool {
	msg := status.Convert(err).Message()
	return status.Code(err) == codes.Unavailable &&
		slices.ContainsFunc(vagueSigns[:], func(sign string) bool { return strings.Contains(msg, sign) })
}

// mismatches are the peers of a call whose last informative failure was a mismatch. The zero value
// is ready for use.
type mismatches struct {
	peers map[int]bool
	tries int // that failed by a mismatch, since the first of peers
	since time.Time
}

// note records the failure of a try.
func (m *mismatches) note(peer int, err error, tls bool) {
	switch {
	case mismatched(err, tls):
		if len(m.peers) == 0 {
			m.peers, m.tries, m.since = map[int]bool{}, 0, time.Now()
		}
		m.peers[peer] = true
		m.tries++
	case !vague(err):
		delete(m.peers, peer)
	}
}

// all reports whether each of the addresses fails by a mismatch.
func (m *mismatches) all(addresses int) bool { return len(m.peers) >= addresses }

// permanent reports whether each of the addresses has failed by a mismatch for long enough.
func (m *mismatches) permanent(addresses int) bool {
	return m.all(addresses) && m.tries > addresses && time.Since(m.since) >= mismatchTime
}

// pause shortens the wait before the next try, so that a permanent error is not kept back.
func (m *mismatches) pause(addresses int, wait time.Duration) time.Duration {
	if !m.all(addresses) {
		return wait
	}
	return min(wait, max(mismatchTime/4, mismatchTime-time.Since(m.since)))
}
