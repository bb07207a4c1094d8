package lists

import (
	"cmp"
	"context"
	"time"

	"google.golang.org/grpc"

	"github.com/holdfast-metal/holdfast/internal/describe"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/ui/internal/display"
)

func waves() Kind {
	return Kind{
		Name: "waves", Title: "Waves", One: "wave", Many: "waves",
		Example: "phase = RUNNING AND type = REPAVE",
		Hints: []Hint{
			{"active", "phase = RUNNING OR phase = STOPPING"},
			{"failed", "phase = FAILED OR phase = STOPPED"},
			{"canceled", "phase = CANCELED"},
		},
		Create: "holdfast wave start --selector 'pool = gpu' --type REPAVE --max-parallel 20",
		Note: "A wave is a run on each of many machines, a limited number at a time. " +
			"Failed includes canceled and refused machines. To follow one: `holdfast wave watch WAVE`",
		Columns: []string{
			"Wave", "Type", "Phase", "Succeeded", "Failed", "Active", "Waiting", "Not started", "Machines", "By", "Created",
			"Ended", "Why",
		},
		Read: func(ctx context.Context, c grpc.ClientConnInterface, q Query) (Part, error) {
			resp, err := holdfastv1.NewWaveServiceClient(c).ListWaves(ctx, &holdfastv1.ListWavesRequest{
				Filter: q.Filter, PageSize: q.Size, PageToken: q.Page,
			})
			return Part{rowsOf(resp.GetWaves(), waveRow), resp.GetNextPageToken()}, err
		},
	}
}

func waveRow(w *holdfastv1.Wave) Row {
	return Row{w.GetWaveId(), []display.Cell{
		display.To(w.GetWaveId(), display.WavePath(w.GetWaveId())),
		display.To(cmp.Or(w.GetType(), w.GetPlanId()), display.PlanPath(w.GetPlanId())),
		display.State(w.GetPhase()),
		display.Number(w.GetSucceeded()),
		display.Number(w.GetFailed() + w.GetCanceled() + w.GetRefused()),
		display.Number(w.GetActive()),
		display.Number(w.GetWaiting()),
		display.Number(w.GetNotStarted()),
		display.Number(w.GetTotal()),
		display.Text(w.GetPrincipal()),
		display.When(w.GetCreatedAt()),
		display.When(w.GetFinishedAt()),
		display.Long(describe.WaveWhy(w, time.Now())),
	}}
}
