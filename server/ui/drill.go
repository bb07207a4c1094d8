package ui

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-metal/holdfast/internal/wait"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/ui/internal/display"
)

// drillBody is the page for a deliberate transfer of the leadership, with its measured
// effect.
type drillBody struct {
	Status         *holdfastv1.ClusterStatus
	To             string
	Others         []string // voters that can become leader
	From, Led      string   // previous and new leader; empty before the transfer
	Took, Away     string
	Acked, Refused int
}

// The timing of a drill, as in holdfast cluster drill.
const (
	drillPause  = 5 * time.Millisecond
	drillBefore = 500 * time.Millisecond
	drillAfter  = 2 * time.Second
)

func (v *visit) drillQuestion(to string) (drillBody, error) {
	st, err := v.read.cluster.GetClusterStatus(v.ctx, &holdfastv1.GetClusterStatusRequest{})
	b := drillBody{Status: st, To: to}
	for _, p := range st.GetPeers() {
		if p.GetSuffrage() == "voter" && p.GetId() != st.GetLeader() {
			b.Others = append(b.Others, p.GetId())
		}
	}
	if err == nil && (st.GetLeader() == "" || st.GetFailureTolerance() == 0) {
		err = status.Error(codes.FailedPrecondition,
			"cannot transfer the leadership: the cluster tolerates no failure at the moment; "+
				"see the cluster page for unhealthy peers")
	}
	return b, err
}

func (d *dashboard) askDrill(v *visit) error {
	b, err := v.drillQuestion(v.r.URL.Query().Get("to"))
	return v.page("drill", "Drill", "cluster", b, err)
}

// drill transfers the leadership while it writes no-op commands, and shows the longest time
// without an acknowledged write.
func (d *dashboard) drill(v *visit) error {
	form, err := v.form()
	if err != nil {
		return err
	}
	b, err := v.drillQuestion(form.Get("to"))
	if err == nil {
		err = b.measure(v.ctx, v.write.operator)
	}
	return v.page("drill", "Drill", "cluster", b, err)
}

func (b *drillBody) measure(ctx context.Context, c holdfastv1.OperatorServiceClient) error {
	writing, stop := context.WithCancel(ctx)
	defer stop()
	var g errgroup.Group
	away, last := time.Duration(0), time.Now()
	g.Go(func() error {
		for writing.Err() == nil {
			try, cancel := context.WithTimeout(writing, time.Second)
			_, err := c.Probe(try, &holdfastv1.ProbeRequest{})
			cancel()
			switch {
			case err == nil:
				now := time.Now()
				away, last = max(away, now.Sub(last)), now
				b.Acked++
			case writing.Err() == nil:
				b.Refused++
			}
			_ = wait.Sleep(writing, drillPause)
		}
		return nil
	})
	_ = wait.Sleep(ctx, drillBefore)
	r, err := c.TransferLeadership(ctx, &holdfastv1.TransferLeadershipRequest{To: b.To})
	if err == nil {
		_ = wait.Sleep(ctx, drillAfter)
	}
	stop()
	_ = g.Wait() // it always returns nil
	if err != nil {
		return err
	}
	away = max(away, time.Since(last)) // writes may not have resumed
	b.From, b.Led, b.Took, b.Away = r.GetFrom(), r.GetTo(), display.InTime(r.GetTook().AsDuration()), display.InTime(away)
	return nil
}
