package kinds

import (
	"context"
	"fmt"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/filter"
	"github.com/holdfast-metal/holdfast/internal/nearest"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// CheckPools returns an error if a machine names a pool that does not exist, so that a typo makes
// no machine that nobody finds. The pools in made are about to be created. The server accepts any
// name, because pool managers may register after their machines: this is an early refusal for
// operators.
func CheckPools(ctx context.Context, c *client.Client, machines []*holdfastv1.Machine, made []string) error {
	known := slices.Clone(made)
	for _, m := range machines {
		pool := m.GetSpec().GetPool()
		if pool == "" || slices.Contains(known, pool) {
			continue
		}
		there, err := poolExists(ctx, c, pool)
		if err != nil {
			return err
		}
		if !there {
			return noPool(ctx, c, m, made)
		}
		known = append(known, pool)
	}
	return nil
}

// poolExists reports whether a pool is declared, has a manager, or has machines.
func poolExists(ctx context.Context, c *client.Client, pool string) (bool, error) {
	_, err := getPool(ctx, c, pool)
	if status.Code(err) != codes.NotFound {
		return err == nil, app.Failed(err, "get pool %s", pool)
	}
	members, err := Machine().All(ctx, c, filter.Equals("pool", pool), 1)
	return len(members) > 0, app.Failed(err, "list machines")
}

func noPool(ctx context.Context, c *client.Client, m *holdfastv1.Machine, made []string) error {
	pool := m.GetSpec().GetPool()
	msg := fmt.Sprintf("machine %s: there is no pool %q", m.GetMachineId(), pool)
	if like := nearest.Of(pool, append(made, Pool().Names(ctx, c)...)); like != "" {
		msg += fmt.Sprintf(": did you mean %q?", like)
	}
	return app.Exitf(app.ExitNotFound, "%s: create it first: holdfast pool create %s", msg, pool)
}
