package statemetrics

import (
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// longWait is the time after which a queued run counts as overdue.
const longWait = 10 * time.Minute

// runCollector collects the metrics of runs. Those of active runs come from the state,
// those of ended runs from the events since this peer started.
type runCollector struct {
	active, oldest, overdue, atStep *prometheus.Desc

	ended         *prometheus.CounterVec
	seconds, wait *prometheus.HistogramVec
	step          *prometheus.HistogramVec
	retries       *prometheus.CounterVec

	seen map[runStep]bool // all that were ever active: their metrics stay, at zero
}

// runStep is the type of a run and the kind of a step.
type runStep struct{ run, kind string }

func newRunCollector() *runCollector {
	c := &runCollector{
		seen: map[runStep]bool{},
		active: prometheus.NewDesc("holdfast_runs_active",
			"Runs that have not ended, by phase. PENDING is the length of the queue.", []string{"phase"}, nil),
		oldest: prometheus.NewDesc("holdfast_run_oldest_seconds",
			"The longest time that a run has been in its phase; 0 if there is no run.", []string{"phase"}, nil),
		overdue: prometheus.NewDesc("holdfast_runs_overdue",
			"Runs that take longer than they should. PENDING: queued for more than 10 minutes. "+
				"RUNNING: longer than the timeouts of all their steps together.", []string{"phase"}, nil),
		atStep: prometheus.NewDesc("holdfast_run_steps_active",
			"Running runs, by type and by the kind of the current step.", []string{"type", "kind"}, nil),
		ended: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "holdfast_runs_ended_total",
			Help: "Runs that have ended since this peer started, by outcome and type.",
		}, []string{"phase", "type"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "holdfast_run_seconds",
			Help:    "Time from a run's start to its end, by outcome. Counts runs that ended since this peer started.",
			Buckets: runBuckets(),
		}, []string{"phase"}),
		wait: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "holdfast_run_wait_seconds",
			Help: "Time from the request for a run to its start, by outcome. " +
				"Counts runs that ended since this peer started.",
			Buckets: runBuckets(),
		}, []string{"phase"}),
		step: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "holdfast_run_step_seconds",
			Help: "Duration of steps with all attempts, by kind and state. " +
				"Counts runs that ended since this peer started.",
			Buckets: runBuckets(),
		}, []string{"kind", "state"}),
		retries: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "holdfast_run_step_retries_total",
			Help: "Attempts of steps after the first one, by kind. Counts runs that ended since this peer started.",
		}, []string{"kind"}),
	}
	for _, p := range []holdfastv1.Run_Phase{holdfastv1.Run_SUCCEEDED, holdfastv1.Run_FAILED, holdfastv1.Run_CANCELED} {
		c.seconds.WithLabelValues(p.String())
		c.wait.WithLabelValues(p.String())
	}
	return c
}

func runBuckets() []float64 {
	return []float64{1, 5, 15, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400}
}

func (c *runCollector) describe(ch chan<- *prometheus.Desc) {
	ch <- c.active
	ch <- c.oldest
	ch <- c.overdue
	ch <- c.atStep
	for _, v := range c.vectors() {
		v.Describe(ch)
	}
}

// vectors returns the metrics of ended runs.
func (c *runCollector) vectors() []prometheus.Collector {
	return []prometheus.Collector{c.ended, c.seconds, c.wait, c.step, c.retries}
}

// collect computes the metrics of the active runs.
func (c *runCollector) collect(ch chan<- prometheus.Metric, v *fsm.View, now time.Time) {
	phases := []holdfastv1.Run_Phase{holdfastv1.Run_PENDING, holdfastv1.Run_RUNNING}
	active, oldest := map[holdfastv1.Run_Phase]int{}, map[holdfastv1.Run_Phase]time.Duration{}
	overdue := map[holdfastv1.Run_Phase]int{}
	steps := map[runStep]int{}
	for r := range v.ActiveRuns() {
		phase := r.GetPhase()
		since, most := r.GetCreatedAt(), longWait
		if phase == holdfastv1.Run_RUNNING {
			since, most = r.GetStartedAt(), 0
			for _, s := range r.GetSteps() {
				most += time.Duration(s.GetTimeoutSeconds()) * time.Second
				if s.GetState() == holdfastv1.StepStatus_RUNNING {
					at := runStep{typeOf(r), s.GetKind()}
					steps[at]++
					c.seen[at] = true
				}
			}
		}
		age := now.Sub(since.AsTime())
		active[phase]++
		oldest[phase] = max(oldest[phase], age)
		if most > 0 && age > most && !r.GetConcurrent() { // a console has no time limit
			overdue[phase]++
		}
	}
	for _, p := range phases {
		ch <- prometheus.MustNewConstMetric(c.active, prometheus.GaugeValue, float64(active[p]), p.String())
		ch <- prometheus.MustNewConstMetric(c.oldest, prometheus.GaugeValue, oldest[p].Seconds(), p.String())
		ch <- prometheus.MustNewConstMetric(c.overdue, prometheus.GaugeValue, float64(overdue[p]), p.String())
	}
	for p := range c.seen {
		ch <- prometheus.MustNewConstMetric(c.atStep, prometheus.GaugeValue, float64(steps[p]), p.run, p.kind)
	}
	for _, v := range c.vectors() {
		v.Collect(ch)
	}
}

// countEnded counts an ended run.
func (c *runCollector) countEnded(r *holdfastv1.Run) {
	phase := r.GetPhase().String()
	c.ended.WithLabelValues(phase, typeOf(r)).Inc()
	if r.GetStartedAt() != nil {
		c.seconds.WithLabelValues(phase).Observe(r.GetFinishedAt().AsTime().Sub(r.GetStartedAt().AsTime()).Seconds())
		c.wait.WithLabelValues(phase).Observe(r.GetStartedAt().AsTime().Sub(r.GetCreatedAt().AsTime()).Seconds())
	}
	for _, s := range r.GetSteps() {
		c.seen[runStep{typeOf(r), s.GetKind()}] = true
		c.retries.WithLabelValues(s.GetKind()).Add(float64(s.GetRetryCount()))
		if s.GetStartedAt() != nil && s.GetFinishedAt() != nil {
			took := s.GetFinishedAt().AsTime().Sub(s.GetStartedAt().AsTime())
			c.step.WithLabelValues(s.GetKind(), s.GetState().String()).Observe(took.Seconds())
		}
	}
}

// typeOf returns the type of a run as a label: PLAN if the run has only a plan.
func typeOf(r *holdfastv1.Run) string {
	if r.GetType() == "" {
		return "PLAN"
	}
	return strings.ToUpper(r.GetType())
}
