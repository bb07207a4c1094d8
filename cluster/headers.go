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

// The metadata that calls carry (docs/concepts.md).
const (
	// HeaderConsistency in a request: "stale" or "linearizable", the default.
	HeaderConsistency = "holdfast-consistency"
	// HeaderMinIndex in a request: an index that the answer must include.
	HeaderMinIndex = "holdfast-min-index"
	// HeaderIndex in every answer: the index of the state when it was given.
	HeaderIndex = "holdfast-index"
	// HeaderLeader in every answer: the id of the leader; empty if none is known.
	HeaderLeader = "holdfast-leader"
	// HeaderLastContact in every answer: milliseconds since the leader was heard; 0 on the leader,
	// -1 for never.
	HeaderLastContact = "holdfast-last-contact-ms"

	// headerHop marks a call that another peer has forwarded: it is not forwarded again.
	headerHop = "holdfast-forwarded-by"
)

// How long calls may take.
const (
	callTimeout  = 30 * time.Second       // of a call without a deadline
	holdTimeout  = 8 * time.Second        // a call waits for a leader
	answerMargin = 100 * time.Millisecond // between our answer and the caller's deadline
	pollLeader   = 10 * time.Millisecond  // while waiting for a leader
	maxPause     = 200 * time.Millisecond // between tries
)

// inTime returns a context that ends early enough for an answer to reach the caller before its own
// deadline.
func inTime(ctx context.Context) (context.Context, context.CancelFunc) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return context.WithTimeout(ctx, callTimeout)
	}
	return context.WithDeadline(ctx, deadline.Add(-min(answerMargin, time.Until(deadline)/4)))
}

// consistencyOf reads what a call asks for.
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

// answered picks from another peer's answer what belongs to it rather than to its transport.
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

// why reports why there is no leader that could be asked.
func (n *Node) why(leader string) string {
	var voters, seen []string
	for _, m := range n.gossip.peers() {
		if m.alive {
			seen = append(seen, m.meta.GetId())
		}
	}
	others, self := n.voters()
	if voters = others; self {
		voters = append(voters, n.cfg.NodeID)
	}
	switch {
	case len(voters) == 0 && len(n.replaced()) > 0:
		return fmt.Sprintf("the cluster of this peer cannot form: founders %v have lost their data since they agreed to it: "+
			"stop the founders %v, move their data directories away and start them again", n.replaced(), ids(n.ident.get().Forming))
	case len(voters) == 0 && n.cfg.BootstrapExpect > 0:
		return fmt.Sprintf("this peer belongs to no cluster yet: one forms when %d peers see each other; seen: %v", n.cfg.BootstrapExpect, seen)
	case len(voters) == 0:
		return fmt.Sprintf("this peer belongs to no cluster yet; peers seen: %v", seen)
	case leader == n.cfg.NodeID:
		return "this peer is taking the leadership over"
	case leader != "":
		return fmt.Sprintf("leader %s cannot be reached", leader)
	}
	since := "none since this peer has started"
	if t := n.leaderless.Load(); t != nil {
		since = fmt.Sprintf("none for %v", time.Since(*t).Round(time.Millisecond))
	}
	slices.Sort(voters)
	return fmt.Sprintf("%s; a majority of the voters %v must be up; peers seen: %v", since, voters, seen)
}
