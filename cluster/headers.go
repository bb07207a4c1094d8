package cluster

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/holdfast-metal/holdfast/cluster/call"
	"github.com/holdfast-metal/holdfast/cluster/peertls"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// Time limits of calls.
const (
	callTimeout  = 30 * time.Second       // for a call without a deadline
	holdTimeout  = 8 * time.Second        // for a call that waits for a leader
	answerMargin = 100 * time.Millisecond // between the answer and the caller's deadline
	pollLeader   = 10 * time.Millisecond  // while waiting for a leader
	maxPause     = 200 * time.Millisecond // between tries
)

// maxIndex is more than any log has entries: a million a second for 8 years.
const maxIndex = 1 << 48

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
func consistencyOf(ctx context.Context) (call.Consistency, error) {
	var c call.Consistency
	for _, v := range metadata.ValueFromIncomingContext(ctx, call.HeaderConsistency) {
		switch v {
		case "stale":
			c.Stale = true
		case "linearizable", "":
		default:
			return c, status.Errorf(codes.InvalidArgument, "%s is %q: want stale or linearizable", call.HeaderConsistency, v)
		}
	}
	for _, v := range metadata.ValueFromIncomingContext(ctx, call.HeaderMinIndex) {
		i, err := strconv.ParseUint(v, 10, 64)
		if err != nil {
			return c, status.Errorf(codes.InvalidArgument, "%s is %q: want a number", call.HeaderMinIndex, v)
		}
		if i > maxIndex {
			return c, status.Errorf(codes.InvalidArgument, "%s is %d: no answer has had such an index: "+
				"send the %s of an earlier answer", call.HeaderMinIndex, i, call.HeaderIndex)
		}
		c.MinIndex = max(c.MinIndex, i)
	}
	return c, nil
}

// header is the headers of answers, for as long as their values are the same.
type header struct {
	index   uint64
	leader  string
	contact int64 // milliseconds since the last contact with the leader
	md      metadata.MD
}

// header returns the headers of an answer. The caller must not change them.
func (rt *router) header() metadata.MD {
	leader, _, _ := rt.n.Leader()
	index, contact := rt.n.fsm.Applied(), rt.n.reporter.lastContact()
	if h := rt.last.Load(); h != nil && h.index == index && h.leader == leader && h.contact == contact {
		return h.md
	}
	h := &header{index: index, leader: leader, contact: contact, md: metadata.Pairs(
		call.HeaderIndex, strconv.FormatUint(index, 10),
		call.HeaderLeader, leader,
		call.HeaderLastContact, strconv.FormatInt(contact, 10),
	)}
	rt.last.Store(h)
	return h.md
}

// setHeaders sets the headers and trailers of the answer to a call.
func (c *unaryCall) setHeaders(ctx context.Context) {
	if c.header == nil {
		c.header = c.n.router.header()
	}
	err := grpc.SetHeader(ctx, c.header)
	if len(c.trailer) > 0 {
		err = errors.Join(err, grpc.SetTrailer(ctx, c.trailer))
	}
	if err != nil {
		c.n.log.Debug("cannot set response headers", "error", err)
	}
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

// internalPrefix begins the full names of the methods that only peers may call
// (docs/security.md). Without TLS, any process on loopback counts as a peer.
const internalPrefix = "/holdfast.internal."

// callingPeer returns the id of the peer at the other end. ok is false if it is not a member
// of this cluster.
func (rt *router) callingPeer(ctx context.Context) (id string, ok bool) {
	if rt.n.cfg.TLS == nil {
		return "", true
	}
	c, ok := peertls.FromContext(ctx, rt.n.cfg.Clock.Now())
	if !ok || rt.n.Member(ctx, c) != nil {
		return "", false
	}
	return c.Peer, true
}

// beforeJoining are the methods that a peer may call before it is a member. They change nothing.
var beforeJoining = []string{
	internalv1.PeerService_Stats_FullMethodName, // to find out why it is no member
	internalv1.PeerService_Vouch_FullMethodName, // to find out who is
}

// checkPeer returns an error if a caller that is not a member calls a method for peers.
func (rt *router) checkPeer(ctx context.Context, method string) error {
	if !strings.HasPrefix(method, internalPrefix) || rt.n.cfg.TLS == nil {
		return nil
	}
	c, ok := peertls.FromContext(ctx, rt.n.cfg.Clock.Now())
	if !ok || c.Peer == "" || c.Cluster != rt.n.cfg.TLS.Cluster() {
		return status.Errorf(codes.PermissionDenied,
			"%s is only for peers of cluster %s: the caller has no peer certificate",
			method, rt.n.cfg.TLS.Cluster())
	}
	var err error
	if slices.Contains(beforeJoining, method) {
		err = rt.n.roster.Denied(c.Peer, c.Cert)
	} else {
		err = rt.n.Member(ctx, c)
	}
	if err != nil {
		rt.n.roster.LogRefusal(method, c.Peer, err)
		return status.Errorf(codes.PermissionDenied, "%s refused: %s", method, err)
	}
	return nil
}

// checkSelf returns an error if a peer acts for another peer.
func (rt *router) checkSelf(ctx context.Context, id string) error {
	if rt.n.cfg.TLS == nil {
		return nil
	}
	if from, ok := rt.callingPeer(ctx); !ok || from != id {
		return status.Errorf(codes.PermissionDenied, "peer %q cannot act for peer %q", from, id)
	}
	return nil
}

// ForwardedBy returns the peer that has forwarded a call. The header is trusted only if it
// names the calling peer itself, which with TLS is the peer in the certificate. Other
// metadata about the original caller may be trusted only if ok is true.
func (n *Node) ForwardedBy(ctx context.Context) (id string, ok bool) {
	by := metadata.ValueFromIncomingContext(ctx, call.HeaderForwardedBy)
	if len(by) != 1 {
		return "", false
	}
	from, ok := n.router.callingPeer(ctx)
	if !ok || n.cfg.TLS != nil && from != by[0] {
		return "", false
	}
	return by[0], true
}

// trusted reports whether another peer has forwarded a call, and returns its context. It
// drops the forwarding header unless an authenticated peer has sent it.
func (rt *router) trusted(ctx context.Context) (_ context.Context, hopped bool) {
	if len(metadata.ValueFromIncomingContext(ctx, call.HeaderForwardedBy)) == 0 {
		return ctx, false
	}
	if _, ok := rt.n.ForwardedBy(ctx); ok {
		return ctx, true
	}
	md := incoming(ctx)
	md.Delete(call.HeaderForwardedBy)
	return metadata.NewIncomingContext(ctx, md), false
}

// incoming returns a copy of the metadata of a call.
func incoming(ctx context.Context) metadata.MD {
	if md, ok := metadata.FromIncomingContext(ctx); ok {
		return md
	}
	return metadata.MD{}
}
