package progress

import (
	"fmt"
	"time"

	"github.com/holdfast-metal/holdfast/internal/cli/render"
	"github.com/holdfast-metal/holdfast/internal/describe"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Wave returns the line with the counts of a wave, and a line that says why it stops.
func Wave(w *holdfastv1.Wave, now time.Time) []render.Line {
	failures := w.GetFailed() + w.GetCanceled() + w.GetRefused()
	done, total := int(w.GetSucceeded()+failures), int(w.GetTotal())
	line := render.Line{text(fmt.Sprintf("%s  %s  %d of %d done  %d active  %d waiting", w.GetWaveId(), bar(done, total),
		done, total, w.GetActive(), w.GetWaiting()))}
	if w.GetNotStarted() > 0 {
		line = append(line, text(fmt.Sprintf("  %d not started", w.GetNotStarted())))
	}
	if failures > 0 {
		line = append(line, render.T(fmt.Sprintf("  %d failed", failures), render.Red))
	}
	if w.GetPhase() != holdfastv1.Wave_RUNNING {
		line = append(line, text("  "), render.State(describe.Enum(w.GetPhase())))
	}
	lines := []render.Line{line}
	if why := describe.WaveWhy(w, now); why != "" {
		lines = append(lines, render.Line{text("  " + why)})
	}
	return lines
}
