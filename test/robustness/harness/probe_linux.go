package harness

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/internal/localcluster"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

const (
	// probeMachine is written only by the harness, and no run uses it.
	probeMachine = "harness-probe"
	probeTimeout = 10 * time.Second // for one write, with the client's retries: within 10 s of the repair
)

func (c *Cluster) setUpProbe(ctx context.Context) error {
	_, err := c.probe.Machines().RegisterMachine(ctx,
		&holdfastv1.RegisterMachineRequest{Machine: &holdfastv1.Machine{MachineId: probeMachine}})
	if err != nil {
		return fmt.Errorf("register the probe machine: %w", err)
	}
	return nil
}

// Write makes one write through any peer, and returns how long it took.
func (c *Cluster) Write(ctx context.Context) (time.Duration, error) {
	ctx, stop := context.WithTimeout(ctx, probeTimeout)
	defer stop()
	began := time.Now()
	_, err := c.probe.Machines().UpdateMachine(ctx, &holdfastv1.UpdateMachineRequest{
		Machine: &holdfastv1.Machine{
			MachineId: probeMachine,
			Labels:    map[string]string{"at": strconv.FormatInt(began.UnixNano(), 10)},
		},
		UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"labels.at"}}})
	if err != nil {
		return 0, fmt.Errorf("write, after %s: %w", time.Since(began).Round(time.Millisecond), err)
	}
	return time.Since(began), nil
}

var errProgress = errors.New("a run has moved")

// Progress blocks until some run moves: a transition that is committed after the call.
// While runs are active that takes at most 10 s.
func (c *Cluster) Progress(ctx context.Context) (time.Duration, error) {
	ctx, stop := context.WithTimeout(ctx, probeTimeout)
	defer stop()
	began := time.Now()
	st, err := c.probe.Cluster().GetClusterStatus(client.WithConsistency(ctx, client.Consistency{}),
		&holdfastv1.GetClusterStatusRequest{})
	if err != nil {
		return 0, fmt.Errorf("ask for the log's index: %w", err)
	}
	from := uint64(0)
	for _, p := range st.GetPeers() {
		from = max(from, p.GetAppliedIndex())
	}
	err = c.probe.WatchRuns(ctx, "", 0, func(e *holdfastv1.RunEvent) error {
		if e.GetIndex() > from {
			return errProgress
		}
		return nil
	})
	if !errors.Is(err, errProgress) {
		return 0, fmt.Errorf("no run moved for %s: %w", time.Since(began).Round(time.Millisecond), err)
	}
	return time.Since(began), nil
}

// Applied returns the highest index that any peer but one has applied.
func (c *Cluster) Applied(ctx context.Context, but *localcluster.Peer) (uint64, error) {
	var most uint64
	for _, p := range c.Peers() {
		if r, err := p.Readiness(ctx); err == nil && p != but {
			most = max(most, r.AppliedIndex)
		}
	}
	if most == 0 {
		return 0, errors.New("no other peer returns its applied index")
	}
	return most, nil
}

// Healthy checks the conditions that must hold within seconds of the end of any fault:
// every peer runs and follows one leader, a write is acknowledged, and runs move.
func (c *Cluster) Healthy(ctx context.Context, runs bool) error {
	wrote, err := c.Write(ctx)
	if err != nil {
		return fmt.Errorf("after heal: %w", err)
	}
	var moved time.Duration
	if runs {
		if moved, err = c.Progress(ctx); err != nil {
			return fmt.Errorf("after heal: %w", err)
		}
	}
	began := time.Now()
	for _, p := range c.Peers() {
		if !p.Running() {
			return fmt.Errorf("after heal: peer %s has ended: %w; the end of its log:\n%s", p.ID, p.Wait(),
				p.LogTail(3000))
		}
	}
	wait, stop := context.WithTimeout(ctx, electionTime+probeTimeout)
	defer stop()
	if err := c.WaitReady(wait); err != nil {
		return fmt.Errorf("after heal: %w", err)
	}
	if err := c.Settled(wait); err != nil {
		return fmt.Errorf("after heal: %w", err)
	}
	if err := errors.Join(c.stillRevoked(wait), c.noEarlyEnd(wait)); err != nil {
		return fmt.Errorf("after heal: %w", err)
	}
	c.Log.Info("healthy", "write", wrote.Round(time.Millisecond), "progress", moved.Round(time.Millisecond),
		"all_ready", time.Since(began).Round(time.Millisecond))
	return nil
}

// Settled blocks until every peer votes, and there are no other members. A wiped peer votes
// again only after it has caught up, and until then the next fault could remove the
// majority. The others count it earlier, so each peer is asked itself.
func (c *Cluster) Settled(ctx context.Context) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	last := errors.New("no peer returns the voters")
	for {
		st, err := c.probe.Cluster().GetClusterStatus(ctx, &holdfastv1.GetClusterStatusRequest{})
		var voters, others []string
		for _, p := range st.GetPeers() {
			switch {
			case c.Peer(p.GetId()) == nil && p.GetSuffrage() != "none":
				others = append(others, p.GetId())
			case p.GetSuffrage() == "voter" && c.admitted(p.GetId()):
				voters = append(voters, p.GetId())
			}
		}
		switch {
		case err == nil && len(voters) == len(c.Peers()) && len(others) == 0:
			return nil
		case err == nil:
			last = fmt.Errorf("of %d peers %v vote; members that are not peers: %v", len(c.Peers()), voters, others)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return errors.Join(last, ctx.Err())
		}
	}
}

// admitted reports whether a peer's data allows it to vote.
func (c *Cluster) admitted(id string) bool {
	p := c.Peer(id)
	if p == nil {
		return false
	}
	b, err := os.ReadFile(filepath.Join(p.DataDir, "identity.json"))
	var record struct {
		Admitted bool `json:"admitted"`
	}
	return err == nil && json.Unmarshal(b, &record) == nil && record.Admitted
}
