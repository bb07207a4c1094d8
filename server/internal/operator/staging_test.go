package operator

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/server/internal/edge"
	"github.com/holdfast-metal/holdfast/server/internal/nodetest"
)

// oneOfThree returns the status of a cluster in which p1 can reach only p2.
func oneOfThree(context.Context) *holdfastv1.ClusterStatus {
	return &holdfastv1.ClusterStatus{Peers: []*holdfastv1.Peer{{Id: "p1"}, {Id: "p2"}, {Id: "p3", Error: "gone"}}}
}

// onePeer connects to a single peer.
type onePeer struct{ grpc.ClientConnInterface }

func (p onePeer) PeerConn(string) (grpc.ClientConnInterface, error) { return p, nil }

// stageOf serves the StageService of a peer.
func stageOf(t *testing.T, n *nodetest.Node) grpc.ClientConnInterface {
	t.Helper()
	g := grpc.NewServer()
	internalv1.RegisterStageServiceServer(g, NewStage(&edge.Peer{Cluster: n, State: n.Peer}))
	lis := bufconn.Listen(1 << 20)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = g.Serve(lis)
	}()
	conn, err := grpc.NewClient("passthrough:///bufconn", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return lis.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close()
		g.Stop()
		<-done
	})
	return conn
}

// TestOthersReadSnapshot checks that the other peers read the snapshot before a restore, and
// that the leader learns when they have read and restored it. It does not wait for a peer
// that cannot.
func TestOthersReadSnapshot(t *testing.T) {
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
			leader := nodetest.New()
			s := New(&edge.Peer{Cluster: leader, State: leader.Peer, Log: slog.New(slog.DiscardHandler)},
				Config{PeerID: "p1", Peers: onePeer{stageOf(t, other)}, Status: oneOfThree})
			cmd := &internalv1.RestoreBackup{RestoreId: "r-1", Chunks: 1, OtherCluster: true}
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			rs := s.readByOthers(ctx, cmd)
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
	rs.haveRead(t.Context(), time.Millisecond)
	rs.haveRestored(t.Context())
	if len(rs.each) != 0 {
		t.Errorf("got %d peers that are waited for, want none", len(rs.each))
	}
}
