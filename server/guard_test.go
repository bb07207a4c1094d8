package server

import (
	"context"
	"fmt"
	"testing"

	"google.golang.org/grpc/metadata"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/internal/guard"
	"github.com/holdfast-metal/holdfast/internal/secrets"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/server/auth"
	"github.com/holdfast-metal/holdfast/server/internal/nodetest"
)

// accepting is a node that accepts each command without applying it.
type accepting struct{ *nodetest.Node }

func (accepting) Apply(_ context.Context, c *internalv1.Command) (fsm.Result, error) {
	return fsm.Result{Index: 7, Value: &holdfastv1.Run{RunId: c.GetStartRun().GetRunId()}}, nil
}

// TestGuardStartRun limits the allocations of a StartRun with a token on the leader: interceptors,
// authorization and handler, without the connection, the log and the state machine. Those of an
// in-process client are included.
func TestGuardStartRun(t *testing.T) {
	n := nodetest.New()
	n.Machine(t, "m-1")
	secret, hash := secrets.NewToken()
	n.Do(t, &internalv1.CreateToken{Token: &internalv1.StoredToken{Sha256: hash,
		Token: &holdfastv1.Token{TokenId: "t1", Name: "guard", Role: holdfastv1.Role_OPERATOR}}})
	gate, _, err := auth.ForNode(auth.Config{PeerID: "p1", RatePerSecond: -1}, &secured{Node: n}, n.Peer)
	if err != nil {
		t.Fatal(err)
	}
	s := New(Config{Gate: gate}, accepting{n}, n.Peer, testProviders())
	c := holdfastv1.NewRunServiceClient(s.InProcess())
	ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+secret)
	i := 0
	guard.Check(t, "edge.StartRun.allocs", testing.AllocsPerRun(200, func() {
		i++
		r := &holdfastv1.StartRunRequest{RequestId: fmt.Sprint(i), MachineId: "m-1", Type: "REBOOT"}
		if _, err := c.StartRun(ctx, r); err != nil {
			t.Fatal(err)
		}
	}))
}
