package bmc

import (
	"context"
	"errors"

	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/bmc/internal/redfish"
)

// record stores the sessions of the Redfish client in the memo of its BMC.
type record struct{ c *controller }

// Begin records that a login begins, and returns the sessions that earlier ones may have left.
func (r record) Begin(ctx context.Context, l redfish.Login) (path string, d redfish.Debt, err error) {
	if err := r.c.load(ctx); err != nil {
		return "", d, err
	}
	r.c.state.Lock()
	path, d = r.c.memo.Session, r.c.memo.debt()
	r.c.memo.owes(d.Add(l))
	r.c.state.Unlock()
	if err := r.c.flush(ctx); err != nil {
		return "", d, providers.Errorf(providers.Transient, "record a login at BMC "+r.c.key, "%w", err)
	}
	return path, d, nil
}

// Noted records the open session, and what else has to be ended.
func (r record) Noted(ctx context.Context, path string, d redfish.Debt) {
	r.c.state.Lock()
	r.c.memo.Session = path
	r.c.memo.owes(d)
	r.c.state.Unlock()
	r.c.save(ctx)
}

// Ended deletes the record of a session.
func (r record) Ended(ctx context.Context, path string) {
	r.c.state.Lock()
	if r.c.memo.Session == path {
		r.c.memo.Session = ""
	}
	r.c.state.Unlock()
	r.c.save(ctx)
}

// errStale is the error of a change to the state of an earlier term, which may be older than that
// of another leader.
var errStale = errors.New("a new term has begun: the state has to be loaded again")

// save stores the changed state. After a failure the next operation saves it.
func (c *controller) save(ctx context.Context) {
	if err := c.flush(ctx); err != nil && !errors.Is(err, errStale) {
		c.p.log.Warn("saving BMC state failed, will retry", "bmc", c.key, "error", err)
	}
}

// flush stores the changed state, or returns an error. It stores one state after the other, so that
// an older one never replaces a newer one.
func (c *controller) flush(ctx context.Context) error {
	select {
	case c.saving <- struct{}{}:
	default: // a state that need not wait is stored even after ctx has ended
		select {
		case c.saving <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	defer func() { <-c.saving }()
	c.loading.Lock()
	loaded := c.loaded
	c.loading.Unlock()
	if !loaded {
		return errStale
	}
	c.state.Lock()
	memo := c.memo
	changed := !memo.equal(c.kept)
	c.state.Unlock()
	if !changed {
		return nil
	}
	if err := c.p.memory.Remember(ctx, c.key, memo); err != nil {
		return err
	}
	c.state.Lock()
	defer c.state.Unlock()
	c.kept = memo
	return nil
}
