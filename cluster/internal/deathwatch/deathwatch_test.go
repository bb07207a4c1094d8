package deathwatch

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"github.com/holdfast-metal/holdfast/cluster/internal/wait"
)

// lab is the follower p3 of a cluster whose leader is p1.
type lab struct {
	mu      sync.Mutex
	leader  string
	silent  bool // nothing arrives from the leader any more
	refuses bool // its port is closed
	unfit   error
	voted   string // the candidate of the vote in the current term
	conn    net.Conn
	elected []time.Duration // since the process ended
	ended   time.Time
	dials   int
}

func (l *lab) State() raft.RaftState { return raft.Follower }
func (l *lab) CurrentTerm() uint64   { return 3 }

// dial connects to the leader, unless it refuses.
func (l *lab) dial(string, time.Duration) (net.Conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dials++
	if l.refuses {
		return nil, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	}
	var far net.Conn
	far, l.conn = net.Pipe()
	return far, nil
}

// end ends the leader's process, or only its connections.
func (l *lab) end(process bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refuses, l.silent, l.ended = true, process, time.Now()
	_ = l.conn.Close()
}

func (l *lab) lead(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.leader = id
}

// vote makes this peer vote for a candidate in a new term, in which it knows no leader.
func (l *lab) vote(candidate string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.voted, l.leader = candidate, ""
}

// An election is called at once only if the leader's process has ended: it closed its connections,
// refuses new ones and is silent. The followers take turns.
func TestProcessEnds(t *testing.T) {
	const turn = 2 * rankPause // p3 has the third
	for _, tt := range []struct {
		name  string
		do    func(l *lab)
		stood time.Duration // when this peer stands; 0: never
	}{
		{"its process ends", func(l *lab) { l.end(true) }, turn},
		{"a firewall rejects connections to it", func(l *lab) { l.end(false) }, 0},
		{"this peer does not vote", func(l *lab) { l.unfit = errors.New("new"); l.end(true) }, 0},
		{"another peer leads before the turn", func(l *lab) {
			l.end(true)
			time.Sleep(rankPause) // sleep: in a synctest bubble
			l.lead("p2")
		}, 0},
		{"this peer votes for another one before its turn", func(l *lab) {
			l.end(true)
			time.Sleep(rankPause) // sleep: in a synctest bubble
			l.vote("p2:1")
		}, turn + recall + turn},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := &lab{leader: "p1"}
				w := New(Config{
					Self: "p3", Heartbeat: 500 * time.Millisecond, RaftAddr: "p3:1", Dial: l.dial, Changed: wait.NewSignal(),
					Leader: func() (string, bool, bool) {
						l.mu.Lock()
						defer l.mu.Unlock()
						return l.leader, false, l.leader != ""
					},
					Voters: func() ([]string, bool) { return []string{"p1", "p0", "p2"}, true },
					Fit:    func() error { return l.unfit },
					VotedFor: func() (uint64, string, error) {
						l.mu.Lock()
						defer l.mu.Unlock()
						if l.voted != "" {
							return 3, l.voted, nil
						}
						return 2, "p1:1", nil
					},
					HeardFrom: func(string, time.Duration) bool {
						l.mu.Lock()
						defer l.mu.Unlock()
						return !l.silent
					},
					Refused: func() uint64 { return 0 },
					CallElection: func(time.Duration) bool {
						l.mu.Lock()
						defer l.mu.Unlock()
						l.elected = append(l.elected, time.Since(l.ended))
						l.leader = "p3"
						return true
					},
					Calling: func() {}, Scale: func(d time.Duration) time.Duration { return d },
					Logger: slog.New(slog.DiscardHandler),
				}, l)
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan struct{})
				go func() {
					defer close(done)
					_ = w.Run(ctx)
				}()
				time.Sleep(time.Minute) // sleep: in a synctest bubble
				if got := w.Watching(); got != "p1" {
					t.Errorf("got a connection to %q, want one to p1", got)
				}
				tt.do(l)
				time.Sleep(10 * time.Second) // sleep: in a synctest bubble
				cancel()
				<-done
				if got := len(l.elected) > 0; got != (tt.stood > 0) {
					t.Fatalf("got elections after %v, want one after %v (0: none)", l.elected, tt.stood)
				}
				if tt.stood > 0 && (l.elected[0] < tt.stood || l.elected[0] > tt.stood+2*redialPause) {
					t.Errorf("got an election after %v, want it after %v", l.elected[0], tt.stood)
				}
			})
		})
	}
}
