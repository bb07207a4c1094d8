package cluster

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

	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// headerDelivery is sent with calls between peers: the delivery of the call.
const headerDelivery = "holdfast-delivery"

// seedBytes is the length of a delivery's seed.
const seedBytes = 32

// delivery identifies a call that a peer may deliver to more than one leader, because its method
// does not declare that it may be repeated. The state does nothing twice for the commands of one
// delivery (fsm/internal/replay).
type delivery struct {
	seed  []byte // random, made by the peer that took the call; only peers know it
	since uint64 // an index before the first delivery
	again bool   // an earlier delivery may have been applied

	mu   sync.Mutex
	done map[protoreflect.Name]int // commands that this delivery has applied, by kind
}

// newDelivery returns the first delivery of a call.
func newDelivery(since uint64) *delivery {
	d := &delivery{seed: make([]byte, seedBytes), since: since}
	_, _ = rand.Read(d.seed) // never fails: see crypto/rand
	return d
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
	return fmt.Sprintf("%s;%d;%t", base64.RawURLEncoding.EncodeToString(d.seed), d.since, d.again)
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
	return &delivery{seed: seed, since: since, again: parts[2] == "true"}
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
	sum := sha256.Sum256(d.seed)
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
		if key, err := hkdf.Key(sha256.New, d.seed, nil, label, n); err == nil {
			return key
		}
	}
	key := make([]byte, n)
	_, _ = rand.Read(key) // never fails: see crypto/rand
	return key
}

// replayable reports whether a request may be repeated as it is although its outcome is unknown:
// its method says so, or it has a request id.
func (r *route) replayable(req any) bool {
	m, ok := req.(proto.Message)
	return ok && (r.requestID != nil && m.ProtoReflect().Get(r.requestID).String() != "" ||
		r.again && hasPath(m.ProtoReflect(), r.needs))
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
