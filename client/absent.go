package client

import (
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// absence is how a peer is not there.
type absence int

const (
	present absence = iota // or nothing is known
	refused                // its host runs, and nothing listens at the port: the peer may start soon
	unknownHost
)

// unknownTime is how long unknown hosts are retried: a resolver may err for a moment.
const unknownTime = 500 * time.Millisecond

// absenceOf returns how a peer is not there, by the error of a try. gRPC returns no types for it.
func absenceOf(err error) absence {
	if status.Code(err) != codes.Unavailable {
		return present
	}
	switch msg := status.Convert(err).Message(); {
	case strings.Contains(msg, "no such host"):
		return unknownHost
	case strings.Contains(msg, "connect: connection refused"):
		return refused
	}
	return present
}

// absences are the peers of a call whose last failure was that they are not there. The zero value
// is ready for use.
type absences struct {
	peers map[int]absence
	since time.Time // of the first of them
}

// note records the failure of a try.
func (a *absences) note(peer int, err error) {
	is := absenceOf(err)
	if is == present {
		delete(a.peers, peer)
		return
	}
	if len(a.peers) == 0 {
		a.peers, a.since = map[int]absence{}, time.Now()
	}
	a.peers[peer] = is
}

// left returns how long a call may still be retried although no peer is there. limit is the time
// for peers that may start soon, 0 for none. ok is false if there is no limit.
func (a *absences) left(addresses int, limit time.Duration) (_ time.Duration, ok bool) {
	if limit <= 0 || len(a.peers) < addresses {
		return 0, false
	}
	most := min(limit, unknownTime)
	for _, is := range a.peers {
		if is == refused {
			most = limit
		}
	}
	return most - time.Since(a.since), true
}
