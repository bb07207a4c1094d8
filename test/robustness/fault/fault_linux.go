package fault

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/holdfast-metal/holdfast/test/robustness/harness"
)

// Heal undoes a fault, as an operator would. When it returns, the fault is undone, but
// peers may still be restarting.
type Heal func(context.Context) error

// Fault is one way to break a cluster.
type Fault interface {
	Name() string
	// Missing returns the reason why this fault cannot be injected here, or "".
	Missing(c *harness.Cluster) string
	// Inject injects the fault, with choices from rng, and returns the function that undoes
	// it.
	Inject(ctx context.Context, c *harness.Cluster, rng *rand.Rand) (Heal, error)
	// Hold returns how long the fault lasts before it is undone.
	Hold(rng *rand.Rand) time.Duration
}

// All returns every fault, the most useful first.
func All() []Fault {
	return []Fault{
		process("kill-leader", killLeader),
		bmcs("bmc-trouble-kill-leader", bmcTroubleKill),
		network("isolate-leader", isolateLeader),
		longer(process("pause-leader", pauseLeader), 2*time.Second, 8*time.Second),
		process("kill-all", killAll),
		clock("clock-jump", clockJump),
		longer(process("revoke-token", revokeToken), time.Second, 3*time.Second),
		disk("disk-error-leader", breakLeadersDisk),
		network("one-way-loss", oneWay),
		longer(process("rotate-keys", rotateKeys), 0, time.Second),
		longer(process("wipe-and-rejoin", wipe), 0, time.Second),
		network("isolate-one", isolateOne),
		disk("disk-hang", hangDisk),
		longer(process("handover-storm", handovers), 0, time.Second),
		network("loss-30", loss),
		longer(process("torn-log", tornLog), 0, time.Second),
		longer(process("quorum-loss", quorumLoss), 4*time.Second, 6*time.Second),
		longer(process("membership", membership), 0, time.Second),
		longer(process("pause-one", pauseOne), 2*time.Second, 8*time.Second),
		disk("disk-full", fillDisk),
		network("bridge", bridge),
		network("slow-link", slowLink),
		network("narrow-link", narrowLink),
		process("lost-log", lostLog),
		network("rejected-direction", rejectDirection),
		bmcs("bmc-trouble", bmcTrouble),
		longer(process("rotate-certificates", rotateCertificates), 0, time.Second),
		longer(process("corrupt-log", corruptLog), 0, time.Second),
		network("ring", ring),
		process("kill-one", killOne),
		longer(process("corrupt-snapshot", corruptSnapshot), 0, time.Second),
		network("latency", latency),
		disk("disk-error", breakDisk),
		network("isolate-leader-then-kill", isolateAndKill),
	}
}

// Parts returns faults that are parts of others, and are injected only by name.
func Parts() []Fault {
	return append(bmcParts(),
		longer(process("rotate-ca", rotateCA), 0, time.Second),
		longer(process("rotate-gossip-key", rotateGossip), 0, time.Second),
	)
}

type injection func(context.Context, *harness.Cluster, *rand.Rand) (Heal, error)

// fault is a Fault with a name, a function and its requirements.
type fault struct {
	name     string
	inject   injection
	needs    func(*harness.Cluster) string
	min, max time.Duration
}

func (f fault) Name() string                      { return f.name }
func (f fault) Missing(c *harness.Cluster) string { return f.needs(c) }
func (f fault) Hold(rng *rand.Rand) time.Duration { return f.min + rand1(rng, f.max-f.min) }
func (f fault) Inject(ctx context.Context, c *harness.Cluster, rng *rand.Rand) (Heal, error) {
	return f.inject(ctx, c, rng)
}

func rand1(rng *rand.Rand, n time.Duration) time.Duration { return time.Duration(rng.Int64N(int64(n))) }

func process(name string, inject injection) fault {
	return fault{name, inject, func(*harness.Cluster) string { return "" }, time.Second, 4 * time.Second}
}

func network(name string, inject injection) fault {
	return fault{name, inject, func(c *harness.Cluster) string {
		if c.Net == nil {
			return "peers do not have separate network namespaces"
		}
		return ""
	}, 2 * time.Second, 6 * time.Second}
}

func clock(name string, inject injection) fault {
	return fault{
		name, inject, func(*harness.Cluster) string { return harness.ClocksMissing() }, 3 * time.Second,
		6 * time.Second,
	}
}

func disk(name string, inject injection) fault {
	return fault{name, inject, func(c *harness.Cluster) string {
		if c.Disks == nil {
			return "peers do not have separate disks"
		}
		return ""
	}, 3 * time.Second, 7 * time.Second}
}

func longer(f fault, least, most time.Duration) fault {
	f.min, f.max = least, most
	return f
}
