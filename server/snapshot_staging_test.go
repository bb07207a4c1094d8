package server

import (
	"bytes"
	"context"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/server/internal/nodetest"
)

// oneOfTwo is the node of a peer in a cluster of two.
type oneOfTwo struct{ *nodetest.Node }

func (n oneOfTwo) Status(context.Context) *holdfastv1.ClusterStatus {
	return &holdfastv1.ClusterStatus{Peers: []*holdfastv1.Peer{{Id: "p1"}, {Id: "p2"}, {Id: "p3", Error: "gone"}}}
}

// TestReadElsewhere checks that the other peers read the snapshot before a restore, and
// that the leader learns when they have read and restored it. It does not wait for a peer
// that cannot.
func TestReadElsewhere(t *testing.T) {
	from := nodetest.New()
	from.Machine(t, "m-1")
	var file bytes.Buffer
	if err := from.Peer.View().Snapshot().WriteBackup(&file,
		fsm.BackupInfo{TakenAt: from.Peer.View().Meta().GetNow()}); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name   string
		staged string // on the other peer
		reads  bool
	}{
		{"reads and restores", "r-1", true},
		{"has something else staged", "r-2", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			other := nodetest.New()
			other.Do(t, &internalv1.StageBackup{RestoreId: tt.staged, Data: file.Bytes()})
			_, c := serve(t, other, Config{PeerID: "p2"})
			leader := nodetest.New()
			s := New(Config{PeerID: "p1", Peers: onePeer{"p2", c.conn}}, oneOfTwo{leader}, leader.Peer, testProviders())
			cmd := &internalv1.RestoreBackup{RestoreId: "r-1", Chunks: 1, OtherCluster: true}
			ctx := testCtx(t)
			rs := (&operatorService{Server: s}).readElsewhere(ctx, cmd)
			defer rs.stop()
			rs.haveRead(ctx, 20*time.Second)
			if len(rs.each) != 1 {
				t.Fatalf("got %d peers to wait for, want p2 alone", len(rs.each))
			}
			select {
			case <-rs.each[0].restored:
				if tt.reads {
					t.Fatal("the other peer is said to have restored before it has")
				}
			default:
				if !tt.reads {
					t.Fatal("a peer that cannot read is waited for")
				}
				other.Do(t, cmd)
			}
			rs.haveRestored(ctx)
			select {
			case <-rs.each[0].restored:
			default:
				t.Error("the other peer has restored, but the leader does not know")
			}
		})
	}
}

// TestReadersAreNotWaitedForTooLong checks that a peer that has not read in time is
// dropped.
func TestReadersAreNotWaitedForTooLong(t *testing.T) {
	silent := make(chan struct{})
	rs := &readers{stop: func() {}, each: []reader{{read: silent, restored: silent}}}
	rs.haveRead(testCtx(t), time.Millisecond)
	rs.haveRestored(testCtx(t))
	if len(rs.each) != 0 {
		t.Errorf("got %d peers that are waited for, want none", len(rs.each))
	}
}

// TestRestoreHasTime checks that a restore may take longer than other calls, even if a
// peer forwards it and the caller has set no deadline.
func TestRestoreHasTime(t *testing.T) {
	s := New(Config{CallTimeout: time.Minute}, nodetest.New(), nodetest.New().Peer, testProviders())
	soon, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	for _, tt := range []struct {
		name, method string
		ctx          context.Context
		least, most  time.Duration
	}{
		{"another call", holdfastv1.OperatorService_Probe_FullMethodName, context.Background(), 0, time.Minute},
		{"a restore", holdfastv1.OperatorService_RestoreSnapshot_FullMethodName, context.Background(), 20 * time.Minute,
			restoreCallTimeout},
		{"a restore whose caller waits a second", holdfastv1.OperatorService_RestoreSnapshot_FullMethodName, soon, 0,
			time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := s.boundUnary(tt.ctx, nil, &grpc.UnaryServerInfo{FullMethod: tt.method},
				func(ctx context.Context, _ any) (any, error) {
					deadline, ok := ctx.Deadline()
					if left := time.Until(deadline); !ok || left > tt.most || left < tt.least {
						t.Errorf("got %v left (a deadline: %v), want %v to %v", left, ok, tt.least, tt.most)
					}
					return nil, nil
				})
			if err != nil {
				t.Error(err)
			}
		})
	}
}
