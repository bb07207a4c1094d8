package server

import (
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// longWait is how long a run may wait in line before it counts as overdue.
const longWait = 10 * time.Minute

// runCollector tells of runs: of those that have not ended by what the state says, of the others by
// what happened since the peer started.
type runCollector struct {
	active, oldest, overdue, atStep *prometheus.Desc

	ended         *prometheus.CounterVec
	seconds, wait *prometheus.HistogramVec
	step          *prometheus.HistogramVec
	retries       *prometheus.CounterVec

	places map[stepPlace]bool // that a run was ever seen in: they go back to zero, not away
}

// stepPlace is the type of a run and the kind of a step.
type stepPlace struct{ run, kind string }

func newRunCollector() *runCollector {
	c := &runCollector{
		places: map[stepPlace]bool{},
		active: prometheus.NewDesc("holdfast_runs_active", "Runs that have not ended, by phase. PENDING is the length of the queue.", []string{"phase"}, nil),
		oldest: prometheus.NewDesc("holdfast_run_oldest_seconds", "For how long the run has been in its phase that has been in it the longest; 0 when there is none.", []string{"phase"}, nil),
		overdue: prometheus.NewDesc("holdfast_runs_overdue",
			"Runs that take longer than they should. PENDING: in line for more than 10 minutes. RUNNING: at work for longer than the timeouts of all their steps together.", []string{"phase"}, nil),
		atStep: prometheus.NewDesc("holdfast_run_steps_active", "Runs at work by type and by the kind of the step that they are in.", []string{"type", "kind"}, nil),
		ended: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "holdfast_runs_ended_total",
			Help: "Runs that have ended since this peer started, by how and by type.",
		}, []string{"phase", "type"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "holdfast_run_seconds",
			Help:    "From a run's start to its end, by how it ended, for runs that have ended since this peer started.",
			Buckets: runBuckets(),
		}, []string{"phase"}),
		wait: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "holdfast_run_wait_seconds",
			Help:    "From when a run was asked for to its start, by how it ended, for runs that have ended since this peer started.",
			Buckets: runBuckets(),
		}, []string{"phase"}),
		step: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "holdfast_run_step_seconds",
			Help:    "How long steps took with all their attempts, by kind and by how they ended, of runs that have ended since this peer started.",
			Buckets: runBuckets(),
		}, []string{"kind", "state"}),
		retries: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "holdfast_run_step_retries_total",
			Help: "Attempts of steps beyond the first one, by kind, of runs that have ended since this peer started.",
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
	c.ended.Describe(ch)
	c.seconds.Describe(ch)
	c.wait.Describe(ch)
	c.step.Describe(ch)
	c.retries.Describe(ch)
}

// collect looks at the runs that have not ended.
func (c *runCollector) collect(ch chan<- prometheus.Metric, v *fsm.View, now time.Time) {
	phases := []holdfastv1.Run_Phase{holdfastv1.Run_PENDING, holdfastv1.Run_RUNNING}
	active, oldest, overdue := map[holdfastv1.Run_Phase]int{}, map[holdfastv1.Run_Phase]time.Duration{}, map[holdfastv1.Run_Phase]int{}
	steps := map[stepPlace]int{}
	for r := range v.ActiveRuns() {
		phase := r.GetPhase()
		since, most := r.GetCreatedAt(), longWait
		if phase == holdfastv1.Run_RUNNING {
			since, most = r.GetStartedAt(), 0
			for _, s := range r.GetSteps() {
				most += time.Duration(s.GetTimeoutSeconds()) * time.Second
				if s.GetState() == holdfastv1.StepStatus_RUNNING {
					at := stepPlace{typeOf(r), s.GetKind()}
					steps[at]++
					c.places[at] = true
				}
			}
		}
		age := now.Sub(since.AsTime())
		active[phase]++
		oldest[phase] = max(oldest[phase], age)
		if most > 0 && age > most && !r.GetBeside() { // a console takes as long as somebody looks at it
			overdue[phase]++
		}
	}
	for _, p := range phases {
		ch <- prometheus.MustNewConstMetric(c.active, prometheus.GaugeValue, float64(active[p]), p.String())
		ch <- prometheus.MustNewConstMetric(c.oldest, prometheus.GaugeValue, oldest[p].Seconds(), p.String())
		ch <- prometheus.MustNewConstMetric(c.overdue, prometheus.GaugeValue, float64(overdue[p]), p.String())
	}
	for p := range c.places {
		ch <- prometheus.MustNewConstMetric(c.atStep, prometheus.GaugeValue, float64(steps[p]), p.run, p.kind)
	}
	c.ended.Collect(ch)
	c.seconds.Collect(ch)
	c.wait.Collect(ch)
	c.step.Collect(ch)
	c.retries.Collect(ch)
}

// over counts a run that has ended.
func (c *runCollector) over(r *holdfastv1.Run) {
	phase := r.GetPhase().String()
	c.ended.WithLabelValues(phase, typeOf(r)).Inc()
	if r.GetStartedAt() != nil {
		c.seconds.WithLabelValues(phase).Observe(r.GetFinishedAt().AsTime().Sub(r.GetStartedAt().AsTime()).Seconds())
		c.wait.WithLabelValues(phase).Observe(r.GetStartedAt().AsTime().Sub(r.GetCreatedAt().AsTime()).Seconds())
	}
	for _, s := range r.GetSteps() {
		c.places[stepPlace{typeOf(r), s.GetKind()}] = true
		c.retries.WithLabelValues(s.GetKind()).Add(float64(s.GetRetryCount()))
		if s.GetStartedAt() != nil && s.GetFinishedAt() != nil {
			c.step.WithLabelValues(s.GetKind(), s.GetState().String()).Observe(s.GetFinishedAt().AsTime().Sub(s.GetStartedAt().AsTime()).Seconds())
		}
	}
}

// typeOf returns the type of a run as a label; a run of a plan alone has none.
func typeOf(r *holdfastv1.Run) string {
	if r.GetType() == "" {
		return "PLAN"
	}
	return strings.ToUpper(r.GetType())
}
