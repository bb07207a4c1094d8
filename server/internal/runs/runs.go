package runs

import (
	"context"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/internal/filter"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/server/auth"
	"github.com/holdfast-metal/holdfast/server/internal/edge"
	"github.com/holdfast-metal/holdfast/server/internal/page"
	"github.com/holdfast-metal/holdfast/server/internal/request"
	"github.com/holdfast-metal/holdfast/server/internal/scope"
)

// Config configures a Service.
type Config struct {
	// CancelWait is the maximum time for which CancelRun waits for the run to end.
	CancelWait time.Duration
	// Archive contains the steps and logs of old runs. It may be nil.
	Archive Archive
}

// Starts prepares commands that start runs (*startrun.Preparer).
type Starts interface {
	Prepare(ctx context.Context, start *internalv1.StartRun) error
}

// Service implements RunService.
type Service struct {
	holdfastv1.UnimplementedRunServiceServer
	*edge.Peer
	cfg    Config
	starts Starts
	hub    *eventHub
}

// New returns the service of a peer. All streams of the peer must use the same one, because
// they share the latest events.
func New(peer *edge.Peer, cfg Config, starts Starts) *Service {
	return &Service{Peer: peer, cfg: cfg, starts: starts, hub: newEventHub(peer.State, peer.Draining)}
}

// GetRun gets a run.
func (s *Service) GetRun(ctx context.Context, r *holdfastv1.GetRunRequest) (*holdfastv1.Run, error) {
	v, err := request.View(ctx, s.Cluster.View, "run_id", r.GetRunId())
	if err != nil {
		return nil, err
	}
	run, ok := scope.Run(ctx, v, r.GetRunId())
	if !ok {
		return nil, request.NotFound("RUN_NOT_FOUND", "run", r.GetRunId())
	}
	return s.withSteps(ctx, readable(v, run)), nil
}

// ListRuns lists runs, newest first.
func (s *Service) ListRuns(
	ctx context.Context, r *holdfastv1.ListRunsRequest,
) (*holdfastv1.ListRunsResponse, error) {
	f, err := request.Filter(runFilter, r.GetFilter())
	if err != nil {
		return nil, err
	}
	p, v, err := page.Open(ctx, s.Cluster.View, r, "runs", r.GetFilter())
	if err != nil {
		return nil, err
	}
	rows := v.Runs(p.After)
	if id, ok := f.Pinned("run_id"); ok {
		rows = page.Single(p, id, v.Run)
	} else if id, ok := f.Pinned("machine_id"); ok {
		rows = v.MachineRuns(id, p.After)
	}
	sees := scope.SeesRuns(auth.From(ctx), func() *fsm.View { return v })
	stored := f.Only(func(path string) bool { return path != "wait" && !strings.HasPrefix(path, "wait.") })
	resp := &holdfastv1.ListRunsResponse{}
	resp.Runs, resp.NextPageToken, err = page.Collect(ctx, p, rows, func(run *holdfastv1.Run) bool {
		if !stored {
			run = readable(v, run)
		}
		return f.Match(run) && sees(run)
	})
	if err != nil {
		return nil, err
	}
	for i, run := range resp.GetRuns() {
		resp.Runs[i] = queued(v, run)
	}
	return resp, nil
}

// queued returns a run with its queue position and the sentence of its wait, which are not in the
// rows of a list.
func queued(v *fsm.View, run *holdfastv1.Run) *holdfastv1.Run {
	if fsm.Ended(run) {
		return run
	}
	if r, ok := v.Run(run.GetRunId()); ok {
		run = r
	}
	return readable(v, run)
}

// runsByAge returns the runs that a filter can match, oldest first.
func runsByAge(v *fsm.View, f *filter.Filter) iter.Seq[*holdfastv1.Run] {
	if id, ok := f.Pinned("run_id"); ok {
		return func(yield func(*holdfastv1.Run) bool) {
			if run, ok := v.Run(id); ok {
				yield(run)
			}
		}
	}
	if id, ok := f.Pinned("machine_id"); ok {
		var runs []*holdfastv1.Run
		for _, run := range v.MachineRuns(id, "") {
			runs = append(runs, run)
		}
		slices.Reverse(runs)
		return slices.Values(runs)
	}
	return v.RunsByAge()
}

// runFilter returns the fields that run filters can use.
func runFilter() *filter.Schema {
	return &filter.Schema{
		Message: (*holdfastv1.Run)(nil).ProtoReflect().Descriptor(),
		Hidden:  []string{"queue_position"},
		Fixed: []string{
			"run_id", "machine_id", "request_id", "type", "plan_id", "params", "created_at", "principal",
			"machine_phase_before",
		},
		Canonical: map[string]func(string) string{"type": request.CanonicalType},
	}
}
