package security

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/internal/localcluster"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/test/overlay"
	"github.com/holdfast-metal/holdfast/test/program"
)

// TestReturnAfterDays checks that a peer comes back after it was down, or paused, for longer than
// its certificate lasts, and for so long that its recorded time is far behind; and also if all
// peers were down. The terms are shorter than in the product, so that a minute stands for days.
func TestReturnAfterDays(t *testing.T) {
	if testing.Short() {
		t.Skip("takes minutes")
	}
	root, err := overlay.Root(".")
	if err != nil {
		t.Fatal(err)
	}
	o := overlay.New(root)
	for _, p := range [][3]string{
		{"fsm/internal/core/clock.go", "MaxAhead = 10 * time.Minute", "MaxAhead = 5 * time.Second"},
		{"cluster/peertls/issue/issue.go", "const skew = time.Hour", "const skew = time.Second"},
	} {
		if err := o.Patch(p[0], p[1], p[2]); err != nil {
			t.Fatal(err)
		}
	}
	bin, err := program.Build{Overlay: o}.Into(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 12*time.Minute)
	defer cancel()
	const life = 20 * time.Second
	c, err := localcluster.Start(ctx, localcluster.Config{Binary: bin, Dir: t.TempDir(), Renewals: true,
		Args: []string{"--tls-peer-life", life.String()}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if err := c.WaitReady(ctx); err != nil {
		t.Fatal(err)
	}
	api, err := client.Dial(client.Config{Addrs: c.Addrs(), TLS: c.TLS(), Timeout: 30 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = api.Close() })
	// renewed blocks until certificates of these peers were renewed that end after a time.
	renewed := func(when string, after time.Time, within time.Duration, peers ...*localcluster.Peer) {
		t.Helper()
		until(t, when, within, func() error {
			st, err := api.Cluster().GetClusterStatus(ctx, &holdfastv1.GetClusterStatusRequest{})
			if err != nil {
				return err
			}
			ends := map[string]time.Time{}
			for _, p := range st.GetPeers() {
				if p.GetError() == "" && p.GetCertificateRenewed() {
					ends[p.GetId()] = p.GetCertificateNotAfter().AsTime()
				}
			}
			for _, p := range peers {
				if !ends[p.ID].After(after) {
					return fmt.Errorf("the certificate of %s ends at %v, want one that ends after %v: %v",
						p.ID, ends[p.ID], after, st.GetPeers())
				}
			}
			return nil
		})
	}
	// back blocks until a peer is ready again and has another certificate. That takes less than a
	// second, but a busy disk may hold up the start. A peer that is refused never comes back.
	back := func(when string, peers ...*localcluster.Peer) {
		t.Helper()
		began := time.Now()
		for _, p := range peers {
			until(t, when+": "+p.ID+" to be ready", 3*time.Minute, func() error {
				r, err := p.Readiness(ctx)
				if err == nil && !r.Ready {
					err = fmt.Errorf("%+v", r)
				}
				if err != nil {
					return fmt.Errorf("%w\n%s", err, p.LogTail(4<<10))
				}
				return nil
			})
		}
		t.Logf("%s: ready after %v", when, time.Since(began))
		renewed(when+": another certificate", began, 3*time.Minute, peers...)
	}
	all := c.Peers()
	gone, others := all[2], all[:2]
	renewed("the first renewals", time.Now(), time.Minute, all...)

	for _, kind := range []struct {
		name        string
		away, again func() error
	}{
		{"stopped", func() error { return gone.Stop(ctx) }, func() error { return gone.Start(ctx) }},
		{"killed", gone.Kill, func() error { return gone.Start(ctx) }},
		{"paused", gone.Pause, gone.Resume},
	} {
		at := time.Now()
		if err := kind.away(); err != nil {
			t.Fatal(err)
		}
		// All certificates that the peer knows have ended then.
		renewed(kind.name+": renewals of the others", at.Add(3*life), 3*time.Minute, others...)
		if err := kind.again(); err != nil {
			t.Fatal(err)
		}
		back(kind.name, gone)
	}

	for _, p := range all {
		if err := p.Kill(); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(2 * life) // sleep: all certificates that were renewed end meanwhile
	for _, p := range all {
		if err := p.Start(ctx); err != nil {
			t.Fatal(err)
		}
	}
	back("all killed", all...)
}
