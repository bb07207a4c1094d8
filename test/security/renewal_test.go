package security

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/internal/localcluster"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/test/program"
)

// TestRenewedCertificates runs five peers whose certificates last half a minute over several
// renewals, while clients write and the leader is killed. No write fails. A removed peer gets no
// other certificate.
func TestRenewedCertificates(t *testing.T) {
	if testing.Short() {
		t.Skip("takes minutes")
	}
	bin := program.Holdfast(t) // builds it, which takes minutes on a busy machine
	ctx, cancel := context.WithTimeout(t.Context(), 12*time.Minute)
	defer cancel()
	c, err := localcluster.Start(ctx, localcluster.Config{Binary: bin, Dir: t.TempDir(), Peers: 5,
		Renewals: true,
		Args:     []string{"--tls-peer-life", "30s"}})
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
	writes, failed := 0, errors.New("")
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for failed = nil; failed == nil; writes++ {
			select {
			case <-stop:
				return
			case <-time.After(20 * time.Millisecond): // sleep: the pace of the writes
			}
			_, failed = api.Machines().RegisterMachine(ctx, &holdfastv1.RegisterMachineRequest{
				Machine: &holdfastv1.Machine{MachineId: fmt.Sprint("m-", writes)}})
		}
	}()
	gone := "" // the removed peer, which still answers for itself
	ends := func() map[string]time.Time {
		st, err := api.Cluster().GetClusterStatus(ctx, &holdfastv1.GetClusterStatusRequest{})
		if err != nil {
			return nil
		}
		at := map[string]time.Time{}
		for _, p := range st.GetPeers() {
			if p.GetError() == "" && p.GetCertificateRenewed() && p.GetId() != gone {
				at[p.GetId()] = p.GetCertificateNotAfter().AsTime()
			}
		}
		return at
	}
	// renewed waits until n peers have had another certificate several times.
	renewed := func(when string, n, times int) {
		t.Helper()
		seen := map[string]map[time.Time]bool{}
		until(t, when+": renewals", 3*time.Minute, func() error {
			enough := 0
			for id, at := range ends() {
				if seen[id] == nil {
					seen[id] = map[time.Time]bool{}
				}
				if left := time.Until(at); left > time.Minute {
					return fmt.Errorf("the certificate of %s still lasts %s", id, left)
				}
				if seen[id][at] = true; len(seen[id]) > times {
					enough++
				}
			}
			if enough < n {
				return fmt.Errorf("%d of %d peers have renewed their certificates %d times", enough, n, times)
			}
			return nil
		})
	}
	renewed("all peers", 5, 2)
	leader, err := c.Leader(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := leader.Kill(); err != nil {
		t.Fatal(err)
	}
	renewed("without a leader that was killed", 4, 1)
	if err := leader.Start(ctx); err != nil {
		t.Fatal(err)
	}
	now, err := c.Leader(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var lost *localcluster.Peer
	for _, p := range c.Peers() {
		if p.ID != now.ID && p.ID != leader.ID {
			lost = p
		}
	}
	// On a busy machine the leader may lose its term meanwhile, and the outcome is unknown. A
	// forced removal can be repeated.
	until(t, "the removal of "+lost.ID, time.Minute, func() error {
		_, err := api.Operator().RemovePeer(ctx, &holdfastv1.RemovePeerRequest{Id: lost.ID, Force: true})
		return err
	})
	gone = lost.ID
	before, err := os.ReadFile(filepath.Join(lost.DataDir, "renewed.pem"))
	if err != nil {
		t.Fatal(err)
	}
	renewed("without a removed peer", 4, 2)
	after, err := os.ReadFile(filepath.Join(lost.DataDir, "renewed.pem"))
	if err != nil || string(after) != string(before) {
		t.Errorf("the removed peer has another certificate (%v):\n%s", err, lost.LogTail(4<<10))
	}
	if log := lost.LogTail(1 << 20); !strings.Contains(log, "certificate not renewed") {
		t.Errorf("the log of the removed peer does not say that its certificate was not renewed:\n%s", lost.LogTail(4<<10))
	}
	close(stop)
	<-done
	if failed != nil {
		t.Errorf("write %d: %v", writes, failed)
	}
	t.Logf("%d writes", writes)
}
