package call

import (
	"context"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// HeaderDelivery is sent with calls between peers: the delivery of the call.
const HeaderDelivery = "holdfast-delivery"

// seedBytes is the length of a delivery's seed.
const seedBytes = 32

// Delivery identifies a call that a peer may deliver to more than one leader, although a repetition
// could have its effect twice, or undo a change that another caller made meanwhile. The state does
// nothing twice for the commands of one delivery (fsm/internal/replay).
type Delivery struct {
	seed  [seedBytes]byte // nobody else knows it: made by the peer that took the call, or from HeaderCall
	since uint64          // an index before the first delivery
	again bool            // an earlier delivery may have been applied

	mu   sync.Mutex
	done map[protoreflect.Name]int // commands that this delivery has applied, by kind
}

// NewDelivery returns the first delivery of a call by this peer. applied is the index of its state,
// and before returns an index that was applied by a time. A caller that repeats calls by itself
// names them (HeaderCall): then it may be one that another peer has delivered.
func NewDelivery(ctx context.Context, applied uint64, before func(time.Time) uint64) (*Delivery, error) {
	d := &Delivery{since: applied}
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
		d.again, d.since = true, before(time.Now().Add(-age))
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

// Repeated returns the next delivery of the same call.
func (d *Delivery) Repeated() *Delivery {
	if d == nil {
		return nil
	}
	return &Delivery{seed: d.seed, since: d.since, again: true}
}

// Header returns the value of HeaderDelivery.
func (d *Delivery) Header() string {
	return fmt.Sprintf("%s;%d;%t", base64.RawURLEncoding.EncodeToString(d.seed[:]), d.since, d.again)
}

// ParseDelivery returns the delivery in the metadata of a call that another peer has forwarded, or
// nil if there is none.
func ParseDelivery(md metadata.MD) *Delivery {
	v := md.Get(HeaderDelivery)
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
	return &Delivery{seed: [seedBytes]byte(seed), since: since, again: parts[2] == "true"}
}

type deliveryKey struct{}

// With returns a context in which Apply marks commands as of this delivery.
func (d *Delivery) With(ctx context.Context) context.Context {
	if d == nil {
		return ctx
	}
	return context.WithValue(ctx, deliveryKey{}, d)
}

// DeliveryFrom returns the delivery of the context, or nil.
func DeliveryFrom(ctx context.Context) *Delivery {
	d, _ := ctx.Value(deliveryKey{}).(*Delivery)
	return d
}

// Mark sets the delivery of a command, and returns a function to call once it is applied. The id
// has the command's kind and how many of the kind the call has applied: a handler that takes
// another way the second time repeats none of them.
func (d *Delivery) Mark(c *internalv1.Command) (applied func()) {
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

// Secret returns n bytes that nobody can guess. They are the same in each delivery of a call
// with the same label, so that a handler that is called again returns the secret whose hash the
// first call has stored.
func Secret(ctx context.Context, label string, n int) []byte {
	if d := DeliveryFrom(ctx); d != nil {
		if key, err := hkdf.Key(sha256.New, d.seed[:], nil, label, n); err == nil {
			return key
		}
	}
	key := make([]byte, n)
	_, _ = rand.Read(key) // never fails: see crypto/rand
	return key
}
