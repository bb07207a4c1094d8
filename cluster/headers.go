package cluster

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// Metadata of calls (docs/concepts.md).
const (
	// HeaderConsistency is sent in requests: "stale" or "linearizable", the default.
	HeaderConsistency = "holdfast-consistency"
	// HeaderMinIndex is sent in requests: an index that the answer must include.
	HeaderMinIndex = "holdfast-min-index"
	// HeaderIndex is sent in every answer: the index of the state that it was read from.
	HeaderIndex = "holdfast-index"
	// HeaderLeader is sent in every answer: the id of the leader, empty if none is known.
	HeaderLeader = "holdfast-leader"
	// HeaderLastContact is sent in every answer: milliseconds since the last contact with
	// the leader. It is 0 on the leader and -1 if there was none.
	HeaderLastContact = "holdfast-last-contact-ms"

	// headerHop marks a call that another peer has forwarded. It is not forwarded again.
	headerHop = "holdfast-forwarded-by"
)

// Time limits of calls.
const (
	callTimeout  = 30 * time.Second       // for a call without a deadline
	holdTimeout  = 8 * time.Second        // for a call that waits for a leader
	answerMargin = 100 * time.Millisecond // between the answer and the caller's deadline
	pollLeader   = 10 * time.Millisecond  // while waiting for a leader
	maxPause     = 200 * time.Millisecond // between tries
)

// inTime returns a context that ends before the caller's deadline, so that the answer
// arrives in time.
func inTime(ctx context.Context) (context.Context, context.CancelFunc) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return context.WithTimeout(ctx, callTimeout)
	}
	return context.WithDeadline(ctx, deadline.Add(-min(answerMargin, time.Until(deadline)/4)))
}

// consistencyOf returns the consistency that the metadata of a call requests.
func consistencyOf(md metadata.MD) (Consistency, error) {
	var c Consistency
	for _, v := range md.Get(HeaderConsistency) {
		switch v {
		case "stale":
			c.Stale = true
		case "linearizable", "":
		default:
			return c, status.Errorf(codes.InvalidArgument, "%s is %q: want stale or linearizable", HeaderConsistency, v)
		}
	}
	for _, v := range md.Get(HeaderMinIndex) {
		i, err := strconv.ParseUint(v, 10, 64)
		if err != nil {
			return c, status.Errorf(codes.InvalidArgument, "%s is %q: want a number", HeaderMinIndex, v)
		}
		c.MinIndex = max(c.MinIndex, i)
	}
	return c, nil
}

// header returns the headers of an answer.
func (n *Node) header() metadata.MD {
	leader, _, _ := n.Leader()
	return metadata.Pairs(
		HeaderIndex, strconv.FormatUint(n.fsm.Applied(), 10),
		HeaderLeader, leader,
		HeaderLastContact, strconv.FormatInt(n.lastContact(), 10),
	)
}

// answered returns the metadata of another peer's answer without that of its transport.
func answered(md metadata.MD) metadata.MD {
	out := metadata.MD{}
	for k, v := range md {
		switch k {
		case "content-type", "date", "trailer":
		default:
			out[k] = v
		}
	}
	return out
}

// why returns the reason why no leader could be asked.
func (n *Node) why(leader string) string {
	var voters, seen []string
	for _, m := range n.gossip.Peers() {
		if m.Alive {
			seen = append(seen, m.Meta.GetId())
		}
	}
	others, self := n.voters()
	if voters = others; self {
		voters = append(voters, n.cfg.NodeID)
	}
	switch {
	case len(voters) == 0 && len(n.replaced()) > 0:
		return fmt.Sprintf("the cluster cannot form: founders %v have lost their data since they agreed to form it:  "+
			"stop the founders %v, move their data directories away and start them again",
			n.replaced(), ids(n.ident.get().Forming))
	case len(voters) == 0 && n.cfg.BootstrapExpect > 0:
		return fmt.Sprintf("this peer has no cluster yet: one forms when %d peers see each other; peers seen: %v",
			n.cfg.BootstrapExpect, seen)
	case len(voters) == 0:
		return fmt.Sprintf("this peer has no cluster yet; peers seen: %v", seen)
	case leader == n.cfg.NodeID:
		return "this peer is taking over the leadership"
	case leader != "":
		return fmt.Sprintf("leader %s is unreachable", leader)
	}
	since := "none since this peer started"
	if t := n.leaderless.Load(); t != nil {
		since = fmt.Sprintf("none for %v", time.Since(*t).Round(time.Millisecond))
	}
	slices.Sort(voters)
	return fmt.Sprintf("%s; a majority of the voters %v must be up; peers seen: %v", since, voters, seen)
}
