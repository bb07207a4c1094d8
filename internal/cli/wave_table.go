package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/internal/cli/progress"
	"github.com/holdfast-metal/holdfast/internal/cli/render"
	"github.com/holdfast-metal/holdfast/internal/describe"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

func waveKind() kind[*holdfastv1.Wave] {
	return kind[*holdfastv1.Wave]{
		noun: "wave", list: "waves",
		name: (*holdfastv1.Wave).GetWaveId,
		header: []string{"WAVE", "TYPE", "PHASE", "DONE", "FAILED", "ACTIVE", "WAITING", "NOT STARTED", "TOOK", "CREATED",
			"WHY"},
		wide: []string{"PLAN", "PARALLEL", "MAX FAILURES", "STARTED BY", "RETRY OF", "SELECTOR"},
		row: func(w *holdfastv1.Wave, now time.Time) []any {
			return []any{
				w.GetWaveId(), w.GetType(), render.State(describe.Enum(w.GetPhase())),
				fmt.Sprintf("%d/%d", waveDone(w), w.GetTotal()), number(waveFailures(w)), number(w.GetActive()),
				number(w.GetWaiting()), number(w.GetNotStarted()), progress.Took(now, w.GetCreatedAt(), w.GetFinishedAt()),
				age(now, w.GetCreatedAt()), describe.WaveWhy(w, now),
				w.GetPlanId(), w.GetMaxParallel(), w.GetMaxFailures(), w.GetPrincipal(), w.GetRetryOf(), w.GetFilter(),
			}
		},
		page: func(ctx context.Context, c *client.Client, q query) ([]*holdfastv1.Wave, string, error) {
			r, err := c.Waves().ListWaves(ctx, &holdfastv1.ListWavesRequest{Filter: q.filter, PageSize: q.size,
				PageToken: q.token})
			return r.GetWaves(), r.GetNextPageToken(), err
		},
		get: getWave,
	}
}

// waveFailures returns the number of machines that count as failures.
func waveFailures(w *holdfastv1.Wave) int32 { return w.GetFailed() + w.GetCanceled() + w.GetRefused() }

// waveDone returns the number of machines whose run has ended or was refused.
func waveDone(w *holdfastv1.Wave) int32 { return w.GetSucceeded() + waveFailures(w) }

func getWave(ctx context.Context, c *client.Client, id string) (*holdfastv1.Wave, error) {
	return c.Waves().GetWave(ctx, &holdfastv1.GetWaveRequest{WaveId: id})
}
