package gossip

import (
	"bytes"
	"log/slog"
	"net"
	"strings"
	"testing"

	"github.com/hashicorp/memberlist"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// TestOtherClusterIsLoggedOnce checks that each attempt of a peer of another cluster is refused,
// and logged if its cluster is another one than before.
func TestOtherClusterIsLoggedOnce(t *testing.T) {
	var log bytes.Buffer
	g := &Gossip{
		log: slog.New(slog.NewTextHandler(&log, nil)), foreign: map[string]string{}, warned: map[string]string{},
		meta: func() *internalv1.GossipMeta { return &internalv1.GossipMeta{Id: "p1", ClusterId: "own"} },
	}
	for _, tt := range []struct {
		cluster string
		logged  int // lines so far
	}{{"a", 1}, {"a", 1}, {"b", 2}, {"b", 2}, {"a", 3}} {
		meta, err := proto.Marshal(&internalv1.GossipMeta{Id: "p2", ClusterId: tt.cluster})
		if err != nil {
			t.Fatal(err)
		}
		node := &memberlist.Node{Name: "p2", Addr: net.IPv4(10, 0, 0, 2), Meta: meta}
		if err := g.NotifyMerge([]*memberlist.Node{node}); err == nil {
			t.Errorf("merge with cluster %s: got no error", tt.cluster)
		}
		if n := strings.Count(log.String(), "gossip with another cluster refused"); n != tt.logged {
			t.Errorf("after a merge with cluster %s: got %d lines, want %d", tt.cluster, n, tt.logged)
		}
	}
}
