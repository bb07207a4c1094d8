package client

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/holdfast-metal/holdfast/client/internal/hedge"
)

// Invoke makes a unary call. It tries one address after the other until one answers, the
// context ends, or no address can be used with these settings (mismatch.go). A try that may
// have been applied is repeated only if the request allows it. A slow try is raced by another
// peer only if the request allows that (repeat.go).
func (p *peers) Invoke(ctx context.Context, method string, req, reply any, opts ...grpc.CallOption) error {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, p.cfg.Timeout)
		defer cancel()
	}
	c := call{
		peers:   p,
		method:  method,
		req:     req,
		reply:   reply,
		opts:    opts,
		rule:    ruleOf(method, req),
		started: time.Now(),
	}
	if len(p.all) == 1 {
		c.rule = min(c.rule, again) // there is no other peer to race
	}
	if c.rule == again {
		var id [16]byte
		_, _ = rand.Read(id[:]) // never fails: see crypto/rand
		c.id = base64.RawURLEncoding.EncodeToString(id[:])
	}
	return c.run(ctx)
}

// call is the state of a unary call. Only judge updates it with the result of a try, one at
// a time.
type call struct {
	peers      *peers
	method     string
	req, reply any
	opts       []grpc.CallOption
	rule       rule
	id         string // of a call with rule again

	started time.Time
	tries   int
	addr    string        // of the last try with a useful error
	err     error         // that error
	unknown bool          // a try may have been applied
	pause   time.Duration // requested by a peer before the next try
	wrong   mismatches
	absent  absences
	warned  atomic.Bool
}

// answer is the result of a try.
type answer struct {
	outcome outcome
	err     error
	reply   any
}

func (c *call) run(ctx context.Context) error {
	defer c.warnOfSilence(ctx)()
	for {
		if done, err := c.round(ctx); done {
			return err
		}
		if c.tooLate(ctx) {
			return c.failed(context.DeadlineExceeded)
		}
		if ctx.Err() != nil || c.unknown && c.rule == once || c.wrong.permanent(len(c.peers.all)) {
			return c.failed(ctx.Err())
		}
		left, limited := c.absent.left(len(c.peers.all), c.peers.cfg.AbsenceTimeout)
		if limited && left <= 0 {
			return c.failed(nil)
		}
		c.log(ctx)
		if c.leaderless() {
			return c.failed(nil)
		}
		wait := c.wrong.pause(len(c.peers.all), c.peers.delay(c.tries))
		if limited {
			wait = min(wait, left)
		}
		if ended := sleep(ctx, max(wait, c.pause)); ended != nil {
			return c.failed(ended)
		}
		c.pause = 0
	}
}

// leaderless reports whether the peers have answered for long enough that there is no leader.
func (c *call) leaderless() bool {
	limit := c.peers.cfg.LeaderTimeout
	return limit > 0 && !c.unknown && Reason(c.err) == ReasonNoLeader && time.Since(c.started) >= limit
}

// answerMargin is the maximum time before the deadline at which a peer without a leader answers.
const answerMargin = 100 * time.Millisecond

// tooLate reports whether another try could only make the outcome unknown. A peer without a
// leader answers NO_LEADER shortly before the deadline. A try after that would be cut off.
func (c *call) tooLate(ctx context.Context) bool {
	end, ok := ctx.Deadline()
	if !ok || c.unknown || onlyReads(c.method) || Reason(c.err) != ReasonNoLeader {
		return false
	}
	return time.Until(end) <= min(answerMargin, end.Sub(c.started)/4)
}

// round tries one peer, or several in turn if the request may be hedged, until one answers.
func (c *call) round(ctx context.Context) (done bool, err error) {
	order := c.peers.order.List()
	if c.rule != hedged || !c.mayRace() {
		order = order[:1]
	}
	var kind protoreflect.MessageType // of the reply
	if len(order) > 1 {
		kind = c.reply.(proto.Message).ProtoReflect().Type() //nolint:forcetypeassert // mayRace
	}
	var won any
	late := hedge.Race(ctx, &c.peers.pace, len(order), func(ctx context.Context, i int) answer {
		reply := c.reply
		if i > 0 { // the first try may be writing into it
			reply = kind.New().Interface()
		}
		return c.try(ctx, c.peers.all[order[i]], reply)
	}, func(i int, a answer) bool {
		if done = c.judge(ctx, c.peers.all[order[i]], a); done {
			won, err = a.reply, a.err
		}
		return done
	})
	for _, i := range late {
		c.peers.order.Late(order[i])
		slow := c.peers.all[order[i]].addr
		c.peers.cfg.Logger.DebugContext(ctx, "another peer answered first", "method", c.method, "addr", slow)
	}
	if won != nil && won != c.reply && err == nil {
		reply := c.reply.(proto.Message) //nolint:forcetypeassert // mayRace
		proto.Reset(reply)
		proto.Merge(reply, won.(proto.Message)) //nolint:forcetypeassert // created above
	}
	return done, err
}

// mayRace reports whether two concurrent tries write to separate destinations. Call options
// of the caller may be destinations too.
func (c *call) mayRace() bool {
	for _, o := range c.opts {
		if _, ok := o.(grpc.StaticMethodCallOption); !ok {
			return false
		}
	}
	_, ok := c.reply.(proto.Message)
	return ok
}

// judge records the result of a try and reports whether it is final.
func (c *call) judge(ctx context.Context, peer *peer, a answer) bool {
	c.tries++
	if a.outcome == answered {
		return true
	}
	c.wrong.note(peer.number, a.err, c.peers.cfg.TLS != nil)
	c.absent.note(peer.number, a.err)
	if (c.err == nil || ctx.Err() == nil) && (c.err == nil || !vague(a.err)) {
		// If the context cut this try off, the error of the try before is more useful.
		c.addr, c.err = peer.addr, a.err
	}
	c.unknown = c.unknown || a.outcome == unknown && !onlyReads(c.method)
	c.pause = max(c.pause, retryDelay(a.err))
	c.peers.order.Leave(peer.number)
	return false
}

func (c *call) try(ctx context.Context, peer *peer, reply any) answer {
	if c.rule != once && len(c.peers.all) > 1 && !takesLong(c.method) {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.peers.tryTimeout)
		defer cancel()
	}
	if c.rule == again {
		// The request cannot be hedged, so probe the peer as soon as it is slow.
		var release context.CancelFunc
		ctx, release = c.peers.watchdog(ctx, peer, hedge.First)
		defer release()
	}
	ctx, try := peer.watch(c.named(c.peers.outgoing(ctx, c.method)))
	var header metadata.MD
	err := peer.conn.Invoke(ctx, c.method, c.req, reply, append(slices.Clip(c.opts), grpc.Header(&header))...)
	c.peers.observe(header)
	if hung := watchdogError(ctx); hung != nil && status.Code(err) == codes.Canceled {
		err = hung
	}
	return answer{classify(err, try.sent.Load()), err, reply}
}

// named adds the identity of a call that is repeated although it may have been applied. Otherwise
// the repetition could undo what others changed meanwhile.
func (c *call) named(ctx context.Context) context.Context {
	if c.rule != again || onlyReads(c.method) {
		return ctx
	}
	var age int64
	if c.unknown {
		age = max(1, time.Since(c.started).Milliseconds())
	}
	return metadata.AppendToOutgoingContext(ctx, HeaderCall, fmt.Sprintf("%s;%d", c.id, age))
}

func (c *call) failed(cause error) error {
	err := c.err
	if errors.Is(cause, context.Canceled) && status.Code(err) != codes.Canceled {
		// The caller canceled: return the code it expects, not that of the last try.
		err = status.Error(codes.Canceled, status.Convert(err).Message())
	}
	return &CallError{
		Method:         c.method,
		Addr:           c.addr,
		Tries:          c.tries,
		OutcomeUnknown: c.unknown,
		Repeatable:     c.rule != once,
		Reads:          onlyReads(c.method),
		Err:            err,
		Cause:          cause,
	}
}

// log logs each retry, and warns once if the call takes long and goes on.
func (c *call) log(ctx context.Context) {
	log, err := c.peers.cfg.Logger, tidy(status.Convert(c.err).Message(), c.addr)
	end, _ := ctx.Deadline()               // Invoke sets one
	last := time.Until(end) < answerMargin // no try follows
	if !last && time.Since(c.started) >= warnAfter && c.warned.CompareAndSwap(false, true) {
		c.warn(ctx, c.addr, err)
		return
	}
	log.DebugContext(ctx, "trying another peer", "method", c.method, "addr", c.addr, "try", c.tries, "err", err)
}

// warn logs that a call takes long.
func (c *call) warn(ctx context.Context, addr, why string) {
	end, _ := ctx.Deadline() // Invoke sets one
	if limit := c.peers.cfg.LeaderTimeout; limit > 0 && why == waitsForLeader {
		if soon := c.started.Add(limit); soon.Before(end) {
			end = soon
		}
	}
	c.peers.cfg.Logger.WarnContext(ctx, "no response yet, will retry", "method", c.method, "addr", addr, "err", why,
		"until", end)
}

// waitsForLeader is the cause of a silence if the peer answers others, but is not ready.
const waitsForLeader = "it waits for a leader"

// warnOfSilence warns about a try that gets no answer: a peer without a leader answers late. A peer
// that is ready takes its time for the call, which needs no warning. The returned function ends it.
func (c *call) warnOfSilence(ctx context.Context) func() {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	t := time.AfterFunc(warnAfter, func() {
		defer close(done)
		peer := c.peers.pick()
		why := peer.silence(ctx)
		if why != "" && ctx.Err() == nil && c.warned.CompareAndSwap(false, true) {
			c.warn(ctx, peer.addr, why)
		}
	})
	return func() {
		cancel()
		if !t.Stop() {
			<-done
		}
	}
}
