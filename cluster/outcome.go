package cluster

import (
	"context"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/raft"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/holdfast-metal/holdfast/cluster/internal/readindex"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// Outcome is the known outcome of a command that did not succeed.
type Outcome int

const (
	// NotApplied commands have changed nothing and never will. They may be retried freely.
	NotApplied Outcome = iota + 1
	// Unknown commands may have been applied, or may still be. They may be retried only
	// under the same request id.
	Unknown
)

// String returns the outcome in words.
func (o Outcome) String() string {
	switch o {
	case NotApplied:
		return "not applied"
	case Unknown:
		return "outcome unknown"
	}
	return fmt.Sprintf("outcome(%d)", int(o))
}

// Reasons in the ErrorInfo of outcome errors, in ErrorDomain.
const (
	ErrorDomain = "holdfast.dev"
	// ReasonNotApplied means that nothing has changed. Retry freely.
	ReasonNotApplied = "NOT_APPLIED"
	// ReasonOutcomeUnknown means that the command may have been applied. Retry only under
	// the same request id.
	ReasonOutcomeUnknown = "OUTCOME_UNKNOWN"
	// ReasonNoLeader means that nothing has changed, because no leader was found in time.
	ReasonNoLeader = "NO_LEADER"
	// ReasonTooLarge means that nothing has changed. The same command will never be
	// accepted.
	ReasonTooLarge = "COMMAND_TOO_LARGE"
	// ReasonEncoding means that nothing has changed. The same command will never be
	// accepted.
	ReasonEncoding = "COMMAND_NOT_ENCODABLE"
)

var (
	// ErrNoLeader is in an OutcomeError if no leader is known or reachable.
	ErrNoLeader = errors.New("no leader")
	// ErrNotLeader is in an OutcomeError if this peer does not lead, or is not ready to.
	ErrNotLeader = readindex.ErrNotLeader
	// ErrTooLarge is in an OutcomeError if a command exceeds the limit of a Raft entry (512
	// KiB).
	ErrTooLarge = errors.New("command is too large")
	// ErrEncoding is in an OutcomeError if a command cannot be encoded, because it has text
	// that is not UTF-8. The same command will never be accepted.
	ErrEncoding = errors.New("command cannot be encoded")
)

// OutcomeError means that a command was not applied, or that its outcome is unknown.
type OutcomeError struct {
	Outcome Outcome
	Leader  string // the leader as far as this peer knows; may be empty
	Err     error
}

// Error returns the outcome and its cause in words.
func (e *OutcomeError) Error() string {
	if e.Outcome == NotApplied && errors.Is(e.Err, ErrNoLeader) {
		return e.Err.Error()
	}
	text := e.Err.Error()
	st, ok := errors.AsType[interface {
		error
		GRPCStatus() *status.Status
	}](e.Err)
	if ok { // without the words of gRPC
		text = strings.Replace(text, st.Error(), st.GRPCStatus().Message(), 1)
	}
	return e.Outcome.String() + ": " + strings.TrimPrefix(text, e.Outcome.String()+": ")
}

// Unwrap returns the cause.
func (e *OutcomeError) Unwrap() error { return e.Err }

// GRPCStatus lets a handler return the error as it is. The status is UNAVAILABLE with an
// ErrorInfo that names the outcome and the leader. A command that is too large or cannot be
// encoded is INVALID_ARGUMENT, because a retry is useless.
func (e *OutcomeError) GRPCStatus() *status.Status {
	code, reason := codes.Unavailable, ReasonNotApplied
	switch {
	case e.Outcome == Unknown:
		reason = ReasonOutcomeUnknown
	case errors.Is(e.Err, ErrNoLeader):
		reason = ReasonNoLeader
	case errors.Is(e.Err, ErrTooLarge):
		code, reason = codes.InvalidArgument, ReasonTooLarge
	case errors.Is(e.Err, ErrEncoding):
		code, reason = codes.InvalidArgument, ReasonEncoding
	}
	info := &errdetails.ErrorInfo{Domain: ErrorDomain, Reason: reason}
	if e.Leader != "" {
		info.Metadata = map[string]string{"leader": e.Leader}
	}
	st := status.New(code, e.Error())
	if with, err := st.WithDetails(info); err == nil {
		return with
	}
	return st
}

// outcomeReason returns the reason of an outcome error received over gRPC, or "" for other
// errors.
func outcomeReason(err error) string {
	for _, d := range status.Convert(err).Details() {
		if i, ok := d.(*errdetails.ErrorInfo); ok && i.GetDomain() == ErrorDomain {
			switch r := i.GetReason(); r {
			case ReasonNotApplied, ReasonOutcomeUnknown, ReasonNoLeader:
				return r
			}
		}
	}
	return ""
}

// raftOutcome returns the outcome for an error of a Raft future. dispatched is true if the
// entry has an index, so its bytes may be on a disk.
func raftOutcome(err error, dispatched bool) Outcome {
	switch {
	case errors.Is(err, raft.ErrNotLeader),
		errors.Is(err, raft.ErrLeadershipTransferInProgress),
		errors.Is(err, raft.ErrEnqueueTimeout),
		errors.Is(err, raft.ErrAbortedByRestore):
		return NotApplied
	case errors.Is(err, raft.ErrRaftShutdown) && !dispatched:
		return NotApplied
	}
	// ErrLeadershipLost, ErrRaftShutdown of a dispatched entry, an error of the log store,
	// or a timeout.
	return Unknown
}

// refusal returns the error of a call that has changed nothing.
func (n *Node) refusal(err error) error {
	if o, ok := errors.AsType[*OutcomeError](err); ok {
		return o
	}
	leader, _, _ := n.Leader()
	return &OutcomeError{Outcome: NotApplied, Leader: leader, Err: err}
}

// headerDelivery is sent with calls between peers: the delivery of the call.
const headerDelivery = "holdfast-delivery"

// seedBytes is the length of a delivery's seed.
const seedBytes = 32

// delivery identifies a call that a peer may deliver to more than one leader, although a repetition
// could have its effect twice, or undo a change that another caller made meanwhile. The state does
// nothing twice for the commands of one delivery (fsm/internal/replay).
type delivery struct {
	seed  [seedBytes]byte // nobody else knows it: made by the peer that took the call, or from HeaderCall
	since uint64          // an index before the first delivery
	again bool            // an earlier delivery may have been applied

	mu   sync.Mutex
	done map[protoreflect.Name]int // commands that this delivery has applied, by kind
}

// newDelivery returns the first delivery of a call by this peer. A caller that repeats calls by
// itself names them (HeaderCall): then it may be one that another peer has delivered.
func (rt *router) newDelivery(ctx context.Context) (*delivery, error) {
	d := &delivery{since: rt.n.fsm.Applied()}
	named := metadata.ValueFromIncomingContext(ctx, HeaderCall)
	if len(named) == 0 {
		_, _ = rand.Read(d.seed[:]) // never fails: see crypto/rand
		return d, nil
	}
	id, age, err := parseCall(named)
	if err != nil {
		return nil, err
	}
	d.seed = sha256.Sum256(append([]byte(HeaderCall+"\x00"), id...))
	if age > 0 {
		d.again, d.since = true, rt.n.past.before(time.Now().Add(-age))
	}
	return d, nil
}

// callBytes is the length of the id in HeaderCall. Nobody can guess the id of another caller.
const callBytes = 16

// parseCall returns the id and the age of the call in values of HeaderCall.
func parseCall(values []string) (id []byte, age time.Duration, err error) {
	text, ms, ok := strings.Cut(values[0], ";")
	id, err = base64.RawURLEncoding.DecodeString(text)
	n, nerr := strconv.ParseInt(ms, 10, 32)
	if len(values) > 1 || !ok || err != nil || len(id) != callBytes || nerr != nil || n < 0 {
		return nil, 0, status.Errorf(codes.InvalidArgument, "metadata %s is %.64q: want 16 random bytes in base64url, "+
			"a semicolon, and the milliseconds since the first try, or 0 in that try", HeaderCall, values)
	}
	return id, time.Duration(n) * time.Millisecond, nil
}

// past remembers which index the state had some time ago.
type past struct {
	mu     sync.Mutex
	points []point // oldest first
}

// point is the index of the applied state at a time.
type point struct {
	at    time.Time
	index uint64
}

// The number of points that are kept, and the least time between two.
const (
	pastPoints = 180
	pastEvery  = time.Second
)

// note remembers the index of the state.
func (p *past) note(at time.Time, index uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.points); n > 0 && at.Sub(p.points[n-1].at) < pastEvery {
		return
	}
	if len(p.points) == pastPoints {
		p.points = p.points[:copy(p.points, p.points[1:])]
	}
	p.points = append(p.points, point{at, index})
}

// before returns an index that was applied by a time, so that every command proposed later has a
// higher one. It is 0 if this peer does not know.
func (p *past) before(at time.Time) uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, o := range slices.Backward(p.points) {
		if !o.at.After(at) {
			return o.index
		}
	}
	return 0
}

// repeated returns the next delivery of the same call.
func (d *delivery) repeated() *delivery {
	if d == nil {
		return nil
	}
	return &delivery{seed: d.seed, since: d.since, again: true}
}

// header returns the value of headerDelivery.
func (d *delivery) header() string {
	return fmt.Sprintf("%s;%d;%t", base64.RawURLEncoding.EncodeToString(d.seed[:]), d.since, d.again)
}

// parseDelivery returns the delivery in the metadata of a call that another peer has forwarded, or
// nil if there is none.
func parseDelivery(md metadata.MD) *delivery {
	v := md.Get(headerDelivery)
	if len(v) != 1 {
		return nil
	}
	parts := strings.Split(v[0], ";")
	if len(parts) != 3 {
		return nil
	}
	seed, err := base64.RawURLEncoding.DecodeString(parts[0])
	since, serr := strconv.ParseUint(parts[1], 10, 64)
	if err != nil || serr != nil || len(seed) != seedBytes {
		return nil
	}
	return &delivery{seed: [seedBytes]byte(seed), since: since, again: parts[2] == "true"}
}

type deliveryKey struct{}

// with returns a context in which Apply marks commands as of this delivery.
func (d *delivery) with(ctx context.Context) context.Context {
	if d == nil {
		return ctx
	}
	return context.WithValue(ctx, deliveryKey{}, d)
}

func deliveryFrom(ctx context.Context) *delivery {
	d, _ := ctx.Value(deliveryKey{}).(*delivery)
	return d
}

// mark sets the delivery of a command, and returns a function to call once it is applied. The id
// has the command's kind and how many of the kind the call has applied: a handler that takes
// another way the second time repeats none of them.
func (d *delivery) mark(c *internalv1.Command) (applied func()) {
	if d == nil || c.GetDelivery() != nil {
		return func() {}
	}
	m := c.ProtoReflect()
	op := m.WhichOneof(m.Descriptor().Oneofs().ByName("op"))
	if op == nil {
		return func() {}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	sum := sha256.Sum256(d.seed[:])
	c.Delivery = &internalv1.Delivery{
		Id:    fmt.Sprintf("%s/%s/%d", hex.EncodeToString(sum[:16]), op.Name(), d.done[op.Name()]),
		Since: d.since,
		Again: d.again,
	}
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.done == nil {
			d.done = map[protoreflect.Name]int{}
		}
		d.done[op.Name()]++
	}
}

// CallSecret returns n bytes that nobody can guess. They are the same in each delivery of a call
// with the same label, so that a handler that is called again returns the secret whose hash the
// first call has stored.
func CallSecret(ctx context.Context, label string, n int) []byte {
	if d := deliveryFrom(ctx); d != nil {
		if key, err := hkdf.Key(sha256.New, d.seed[:], nil, label, n); err == nil {
			return key
		}
	}
	key := make([]byte, n)
	_, _ = rand.Read(key) // never fails: see crypto/rand
	return key
}

// replayable reports whether a peer may repeat a request as it is although its outcome is unknown:
// its method says that a late repetition undoes nothing, or it has a request id.
func (r *route) replayable(req any) bool {
	m, ok := req.(proto.Message)
	return ok && (r.requestID != nil && m.ProtoReflect().Get(r.requestID).String() != "" ||
		r.late && hasPath(m.ProtoReflect(), r.needs))
}

// hasPath reports whether a field, named by its path, has a value. An empty path names no field.
func hasPath(m protoreflect.Message, path string) bool {
	if path == "" {
		return true
	}
	name, rest, more := strings.Cut(path, ".")
	f := m.Descriptor().Fields().ByName(protoreflect.Name(name))
	return f != nil && m.Has(f) && (!more || hasPath(m.Get(f).Message(), rest))
}
