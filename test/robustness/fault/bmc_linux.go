package fault

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/holdfast-metal/holdfast/internal/wait"
	"github.com/holdfast-metal/holdfast/providers/bmc/redfishtest"
	"github.com/holdfast-metal/holdfast/test/robustness/harness"
)

// trouble is a way in which BMCs misbehave.
type trouble struct {
	name   string
	quirks func() redfishtest.Quirks
}

func troubles() []trouble {
	return []trouble{
		{"bmc-hang", func() redfishtest.Quirks { return redfishtest.Quirks{Hang: true} }},
		{"bmc-drop", func() redfishtest.Quirks { return redfishtest.Quirks{Drop: 4} }},
		{"bmc-lie", func() redfishtest.Quirks { return redfishtest.Quirks{Ignore: []string{"reset"}} }},
		{"bmc-busy", func() redfishtest.Quirks { return redfishtest.Quirks{Busy: 3} }},
		{"bmc-sessions", func() redfishtest.Quirks {
			return redfishtest.Quirks{SessionLimit: 1, ExpireSession: true, DropLogins: 1}
		}},
		{"bmc-reboot", func() redfishtest.Quirks { return redfishtest.Quirks{RebootPresses: 2} }},
	}
}

// bmcs returns a fault that needs BMCs.
func bmcs(name string, inject injection) fault {
	return fault{name, inject, func(c *harness.Cluster) string {
		if c.Site == nil || len(c.Site.BMCs) == 0 {
			return "no BMCs are configured"
		}
		return ""
	}, 4 * time.Second, 6 * time.Second}
}

// bmcParts returns each trouble by itself, on all BMCs.
func bmcParts() []Fault {
	var all []Fault
	for _, t := range troubles() {
		all = append(all, bmcs(t.name, func(ctx context.Context, c *harness.Cluster, _ *rand.Rand) (Heal, error) {
			return misbehave(ctx, c, func(int) trouble { return t })
		}))
	}
	return all
}

// bmcTrouble starts a different trouble on each BMC.
func bmcTrouble(ctx context.Context, c *harness.Cluster, rng *rand.Rand) (Heal, error) {
	all := troubles()
	order := rng.Perm(len(all))
	return misbehave(ctx, c, func(i int) trouble { return all[order[i%len(all)]] })
}

// bmcTroubleKill kills the leader while BMCs misbehave: the next one has to find out
// whether a press took effect.
func bmcTroubleKill(ctx context.Context, c *harness.Cluster, rng *rand.Rand) (Heal, error) {
	heal, err := bmcTrouble(ctx, c, rng)
	if err != nil {
		return nil, err
	}
	if err := wait.Sleep(ctx, time.Second+rand1(rng, time.Second)); err != nil {
		return nil, err
	}
	start, err := killLeader(ctx, c, rng)
	if err != nil {
		return nil, errors.Join(err, heal(ctx))
	}
	return func(ctx context.Context) error { return errors.Join(start(ctx), heal(ctx)) }, nil
}

// misbehave makes each BMC misbehave. The returned Heal ends that, and fails if no BMC
// received a request meanwhile.
func misbehave(ctx context.Context, c *harness.Cluster, how func(i int) trouble) (Heal, error) {
	served := 0
	for i, b := range c.Site.BMCs {
		t := how(i)
		seen, err := b.Seen(ctx)
		if err == nil {
			err = b.Quirks(ctx, t.quirks())
		}
		if err != nil {
			return nil, fmt.Errorf("%s of BMC %d: %w", t.name, i, err)
		}
		served += seen.Served
		c.Log.Info("a BMC misbehaves", "bmc", i, "how", t.name)
	}
	return func(ctx context.Context) error {
		var errs []error
		for _, b := range c.Site.BMCs {
			seen, err := b.Seen(ctx)
			errs = append(errs, err, b.Quirks(ctx, redfishtest.Quirks{}))
			served -= seen.Served
		}
		if err := errors.Join(errs...); err != nil {
			return err
		}
		if served == 0 {
			return errors.New("no BMC received a request while they misbehaved: the fault had no effect")
		}
		return nil
	}, nil
}
