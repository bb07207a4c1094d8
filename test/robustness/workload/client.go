package workload

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/holdfast-metal/holdfast/internal/filter"
	"github.com/holdfast-metal/holdfast/internal/wait"
)

// pace is the mean time between two calls of one client.
const pace = 25 * time.Millisecond

// asked is a start that was made.
type asked struct{ machine, request, plan, run string }

// known is shared by the clients: the starts of each machine.
type known struct {
	mu   sync.Mutex
	runs map[string][]asked
}

func (k *known) add(a asked) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.runs[a.machine] = append(k.runs[a.machine], a)
}

// recent returns one of the last n starts of a machine whose run is known.
func (k *known) recent(rng *rand.Rand, machine string, n int) (asked, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	all := k.runs[machine]
	if len(all) == 0 {
		return asked{}, false
	}
	return all[max(0, len(all)-1-rng.IntN(n))], true
}

// client makes one call after the other, each at a random peer.
type client struct {
	w   *Workload
	id  int
	n   int
	rng *rand.Rand

	declared []Op // pools and plans that it created and has not deleted
}

func (c *client) run(ctx context.Context) {
	for wait.Sleep(ctx, time.Duration(c.rng.Int64N(int64(2*pace)))) == nil {
		c.n++
		c.next(ctx)
	}
}

// op begins the record of a call on a random peer and machine.
func (c *client) op() Op {
	return Op{Client: c.id, Peer: c.rng.IntN(len(c.w.rec.peers)), Machine: c.w.machines[c.rng.IntN(len(c.w.machines))]}
}

// timeout is sometimes short, so that calls are given up in transit.
func (c *client) timeout() time.Duration {
	return time.Second + time.Duration(c.rng.Int64N(int64(2*time.Second)))
}

// next makes one call, or a few related ones. The end of ctx does not interrupt them: each
// has its own deadline.
func (c *client) next(ctx context.Context) {
	ctx = context.WithoutCancel(ctx)
	rec, op := c.w.rec, c.op()
	switch dice := c.rng.IntN(100); {
	case dice < 5:
		c.declare(ctx, op)
	case dice < 24:
		rec.GetMachine(ctx, op, c.timeout())
	case dice < 32:
		op.Machine, op.Value = "", filter.Equals("labels.fleet", c.w.prefix)
		rec.ListMachines(ctx, op, c.timeout())
	case dice < 47:
		op.Value = fmt.Sprintf("c%d-%d", c.id, c.n)
		rec.UpdateMachine(ctx, op, c.timeout())
	case dice < 67:
		c.start(ctx, op)
	case dice < 74:
		c.replay(ctx, op)
	case dice < 77:
		c.conflict(ctx, op)
	case dice < 81:
		c.cancel(ctx, op)
	case dice < 89:
		if a, ok := c.w.known.recent(c.rng, op.Machine, 4); ok {
			op.Run = a.run
			rec.GetRun(ctx, op, c.timeout())
		}
	case dice < 94:
		op.Stale = true
		rec.GetMachine(ctx, op, c.timeout())
	case dice < 97:
		op.Machine, op.Plan, op.Value = "", c.w.register, fmt.Sprintf("c%d-%d", c.id, c.n)
		rec.CreatePlan(ctx, op, c.timeout())
	default:
		op.Machine, op.Plan = "", c.w.register
		rec.GetPlan(ctx, op, c.timeout())
	}
}

// start starts a run. After an unknown outcome it retries with the same request id, on
// another peer each time.
func (c *client) start(ctx context.Context, op Op) {
	op.Request, op.Plan = fmt.Sprintf("c%d-%d", c.id, c.n), c.w.plans[c.rng.IntN(len(c.w.plans))]
	for range 4 {
		done := c.w.rec.StartRun(ctx, op, c.timeout())
		if done.Outcome == OK {
			a := asked{op.Machine, op.Request, op.Plan, done.Got.ID}
			c.w.known.add(a)
			if Talk(op.Plan) || c.rng.IntN(6) == 0 {
				c.w.tails.begin(a.run)
			}
		}
		if done.Outcome != Unknown {
			return
		}
		op.Peer = (op.Peer + 1) % len(c.w.rec.peers)
	}
}

// replay repeats a recent or an old start exactly.
func (c *client) replay(ctx context.Context, op Op) {
	window := 3
	if c.rng.IntN(3) == 0 {
		window = 1000
	}
	if a, ok := c.w.known.recent(c.rng, op.Machine, window); ok {
		op.Request, op.Plan = a.request, a.plan
		c.w.rec.StartRun(ctx, op, c.timeout())
	}
}

// conflict requests another plan with a request id in use.
func (c *client) conflict(ctx context.Context, op Op) {
	a, ok := c.w.known.recent(c.rng, op.Machine, 10)
	if !ok {
		return
	}
	for op.Plan = a.plan; op.Plan == a.plan; {
		op.Plan = c.w.plans[c.rng.IntN(len(c.w.plans))]
	}
	op.Request = a.request
	c.w.rec.StartRun(ctx, op, c.timeout())
}

func (c *client) cancel(ctx context.Context, op Op) {
	if a, ok := c.w.known.recent(c.rng, op.Machine, 2); ok {
		op.Run = a.run
		c.w.rec.CancelRun(ctx, op, c.timeout())
	}
}
