package kinds

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/cli/output"
	"github.com/holdfast-metal/holdfast/internal/cli/progress"
	"github.com/holdfast-metal/holdfast/internal/cli/render"
	"github.com/holdfast-metal/holdfast/internal/describe"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Wave returns the kind of waves.
func Wave() output.Kind[*holdfastv1.Wave] {
	return output.Kind[*holdfastv1.Wave]{
		Noun: "wave", List: "waves",
		Name: (*holdfastv1.Wave).GetWaveId,
		Header: []string{"WAVE", "TYPE", "PHASE", "DONE", "FAILED", "ACTIVE", "WAITING", "NOT STARTED", "TOOK", "CREATED",
			"WHY"},
		Wide: []string{"PLAN", "PARALLEL", "MAX FAILURES", "STARTED BY", "RETRY OF", "SELECTOR"},
		Row: func(w *holdfastv1.Wave, now time.Time) []any {
			return []any{
				w.GetWaveId(), w.GetType(), render.State(describe.Enum(w.GetPhase())),
				fmt.Sprintf("%d/%d", WaveDone(w), w.GetTotal()), app.Number(WaveFailures(w)), app.Number(w.GetActive()),
				app.Number(w.GetWaiting()), app.Number(w.GetNotStarted()),
				progress.Took(now, w.GetCreatedAt(), w.GetFinishedAt()),
				app.Age(now, w.GetCreatedAt()), describe.WaveWhy(w, now),
				w.GetPlanId(), w.GetMaxParallel(), w.GetMaxFailures(), w.GetPrincipal(), w.GetRetryOf(), w.GetFilter(),
			}
		},
		Page: func(ctx context.Context, c *client.Client, q output.Query) ([]*holdfastv1.Wave, string, error) {
			r, err := c.Waves().ListWaves(ctx, &holdfastv1.ListWavesRequest{Filter: q.Filter, PageSize: q.Size,
				PageToken: q.Token})
			return r.GetWaves(), r.GetNextPageToken(), err
		},
		Get: GetWave,
	}
}

// WaveFailures returns the number of machines that count as failures.
func WaveFailures(w *holdfastv1.Wave) int32 { return w.GetFailed() + w.GetCanceled() + w.GetRefused() }

// WaveDone returns the number of machines whose run has ended or was refused.
func WaveDone(w *holdfastv1.Wave) int32 { return w.GetSucceeded() + WaveFailures(w) }

// GetWave returns a wave by its id.
func GetWave(ctx context.Context, c *client.Client, id string) (*holdfastv1.Wave, error) {
	return c.Waves().GetWave(ctx, &holdfastv1.GetWaveRequest{WaveId: id})
}
