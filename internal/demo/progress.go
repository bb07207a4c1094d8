package demo

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-metal/holdfast/internal/cli/render"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// killShare is the percentage of steps done at which the leader is killed: at the second step of
// five, most machines are between power off and power on.
const killShare = 36

// progress counts the steps of all runs, and writes a line for each notable event.
type progress struct {
	half     chan struct{} // closed when killShare of the steps are done
	finished chan struct{} // closed when all runs have ended
	began    time.Time
	out      io.Writer               // safe for concurrent use, as files are
	broken   context.CancelCauseFunc // called when out cannot be written

	mu       sync.Mutex // of the counts
	machines int
	total    int               // steps of all runs
	runs     map[string]counts // by run id
	sum      counts
}

// counts are the numbers of steps, attempts and runs, of one run or of all.
type counts struct{ done, failed, adopted, ended int }

func newProgress(out io.Writer, machines int, broken context.CancelCauseFunc) *progress {
	return &progress{half: make(chan struct{}), finished: make(chan struct{}), out: out, broken: broken,
		began: time.Now(), machines: machines, runs: map[string]counts{}}
}

// say writes a line, after the time since the start.
func (p *progress) say(format string, args ...any) {
	text := render.Clean(fmt.Sprintf(format, args...))
	if _, err := fmt.Fprintf(p.out, "%6.1f s  %s\n", time.Since(p.began).Seconds(), text); err != nil {
		p.broken(fmt.Errorf("write progress: %w", err))
	}
}

// steps returns the progress in words.
func (p *progress) steps() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return fmt.Sprintf("%d of %d steps", p.sum.done, p.total)
}

// run counts the new state of a run. The states of one run arrive in order.
func (p *progress) run(r *holdfastv1.Run) {
	p.mu.Lock()
	defer p.mu.Unlock()
	is, failure := count(r)
	was, before := p.runs[r.GetRunId()], p.sum
	p.runs[r.GetRunId()] = is
	p.total = p.machines * len(r.GetSteps())
	p.sum.done += is.done - was.done
	p.sum.failed += is.failed - was.failed
	p.sum.adopted += is.adopted - was.adopted
	p.sum.ended += is.ended - was.ended

	if is.failed > was.failed && before.failed < 8 { // the summary has their number
		p.say("%s %s", r.GetMachineId(), failure)
	}
	if is.adopted > 0 && before.adopted == 0 {
		p.say("%s %s: the new leader adopts the attempt", r.GetMachineId(), r.GetCurrentStep())
	}
	if q := 4 * p.sum.done / max(p.total, 1); q > 4*before.done/max(p.total, 1) && q < 4 {
		p.say("%d %% done: %d of %d steps", 25*q, p.sum.done, p.total)
	}
	closeIf(p.half, 100*p.sum.done >= killShare*p.total)
	closeIf(p.finished, p.sum.ended == p.machines)
}

// count counts the steps and attempts of a run. It returns the last failed attempt in words.
func count(r *holdfastv1.Run) (c counts, failure string) {
	for _, s := range r.GetSteps() {
		if s.GetState() == holdfastv1.StepStatus_SUCCEEDED {
			c.done++
		}
		for _, a := range s.GetAttempts() {
			if len(a.GetEpochs()) > 1 {
				c.adopted++
			}
			if a.GetOutcome() == holdfastv1.Attempt_FAILED {
				c.failed++
				failure = fmt.Sprintf("%s: %s (attempt %d)", s.GetName(),
					strings.ReplaceAll(a.GetError(), " of "+r.GetMachineId()+":", ":"), a.GetNumber())
			}
		}
	}
	if r.GetPhase() >= holdfastv1.Run_SUCCEEDED {
		c.ended = 1
	}
	return c, failure
}

// closeIf closes a channel if that is due and not done yet.
func closeIf(c chan struct{}, due bool) {
	select {
	case <-c:
	default:
		if due {
			close(c)
		}
	}
}
