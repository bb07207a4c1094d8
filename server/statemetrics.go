package server

import (
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// A count of all machines is kept for so many times as long as it took: it costs at most 5 % of a core,
// however many machines there are and however often the metrics are scraped.
const countPause = 20

// stateCollector reads what the state says when the metrics are scraped. Every peer says the same, as far as it
// has applied the log: take the maximum over peers, never the sum.
type stateCollector struct {
	state                           State
	machines, runs, held, lastEvent *prometheus.Desc
	conditions, age                 *prometheus.Desc
	ended                           *prometheus.CounterVec
	seconds                         *prometheus.HistogramVec
	started                         time.Time

	mu     sync.Mutex // guards what follows; scrapes may overlap
	counts map[holdfastv1.EffectiveState_Value]int
	conds  map[condStatus]int
	oldest map[string]float64 // seconds, by type of condition
	again  time.Time          // when machines are counted again
	cursor uint64             // events up to here are in ended and seconds
}

// condStatus is a condition and a status that it has.
type condStatus struct{ kind, status string }

func newStateCollector(state State) *stateCollector {
	c := &stateCollector{
		state:      state,
		machines:   prometheus.NewDesc("holdfast_machines", "Machines by effective state.", []string{"effective_state"}, nil),
		conditions: prometheus.NewDesc("holdfast_condition", "Machines by condition and its status: true, false or unknown.", []string{"type", "status"}, nil),
		age: prometheus.NewDesc("holdfast_condition_oldest_seconds", "How long ago the observation was made that is the oldest, of conditions that are known and are observed again and again.",
			[]string{"type"}, nil),
		runs:      prometheus.NewDesc("holdfast_runs_active", "Runs that have not ended, by phase.", []string{"phase"}, nil),
		held:      prometheus.NewDesc("holdfast_plans_held", "Plans whose new runs wait for a release, because the last ones failed the same way.", nil, nil),
		lastEvent: prometheus.NewDesc("holdfast_run_events_total", "Transitions of runs ever recorded: the cursor of the newest one.", nil, nil),
		ended: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "holdfast_runs_ended_total",
			Help: "Runs that have ended since this peer started, by how and by type.",
		}, []string{"phase", "type"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "holdfast_run_seconds",
			Help:    "From a run's start to its end, by how it ended, for runs that have ended since this peer started.",
			Buckets: []float64{1, 5, 15, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400},
		}, []string{"phase"}),
		started: time.Now(),
		cursor:  state.View().LastEvent(),
	}
	for _, p := range []holdfastv1.Run_Phase{holdfastv1.Run_SUCCEEDED, holdfastv1.Run_FAILED, holdfastv1.Run_CANCELED} {
		c.seconds.WithLabelValues(p.String())
	}
	return c
}

// Describe implements prometheus.Collector.
func (c *stateCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- c.machines
	ch <- c.conditions
	ch <- c.age
	ch <- c.runs
	ch <- c.held
	ch <- c.lastEvent
	c.ended.Describe(ch)
	c.seconds.Describe(ch)
}

// Collect implements prometheus.Collector.
func (c *stateCollector) Collect(ch chan<- prometheus.Metric) {
	c.mu.Lock()
	defer c.mu.Unlock()
	v := c.state.View()
	c.collectMachines(ch, v)
	active := map[holdfastv1.Run_Phase]int{holdfastv1.Run_PENDING: 0, holdfastv1.Run_RUNNING: 0}
	for r := range v.ActiveRuns() {
		active[r.GetPhase()]++
	}
	for phase, n := range active {
		ch <- prometheus.MustNewConstMetric(c.runs, prometheus.GaugeValue, float64(n), phase.String())
	}
	held := 0
	for p := range v.Plans("") {
		if p.GetBrake() != nil {
			held++
		}
	}
	ch <- prometheus.MustNewConstMetric(c.held, prometheus.GaugeValue, float64(held))
	ch <- prometheus.MustNewConstMetric(c.lastEvent, prometheus.CounterValue, float64(v.LastEvent()))
	c.readEvents(v)
	c.ended.Collect(ch)
	c.seconds.Collect(ch)
}

func (c *stateCollector) collectMachines(ch chan<- prometheus.Metric, v *fsm.View) {
	if now := time.Now(); !now.Before(c.again) {
		c.counts, c.conds, c.oldest = map[holdfastv1.EffectiveState_Value]int{}, map[condStatus]int{}, map[string]float64{}
		for m := range v.Machines("") {
			c.counts[m.GetStatus().GetEffectiveState()]++
			for _, cond := range m.GetStatus().GetConditions() {
				c.conds[condStatus{cond.GetType(), fsm.ConditionStatus(cond)}]++
				if cond.GetFreshUntil() != nil && !cond.GetUnknown() {
					c.oldest[cond.GetType()] = max(c.oldest[cond.GetType()], now.Sub(cond.GetObservedAt().AsTime()).Seconds())
				}
			}
		}
		took := time.Since(now)
		c.again = now.Add(took + countPause*took)
	}
	for k, n := range c.conds {
		ch <- prometheus.MustNewConstMetric(c.conditions, prometheus.GaugeValue, float64(n), k.kind, k.status)
	}
	for kind, seconds := range c.oldest {
		ch <- prometheus.MustNewConstMetric(c.age, prometheus.GaugeValue, seconds, kind)
	}
	for n, name := range holdfastv1.EffectiveState_Value_name {
		value := holdfastv1.EffectiveState_Value(n)
		if value != holdfastv1.EffectiveState_EFFECTIVE_STATE_UNSPECIFIED {
			ch <- prometheus.MustNewConstMetric(c.machines, prometheus.GaugeValue, float64(c.counts[value]), name)
		}
	}
}

// readEvents counts the runs that have ended since the last scrape. Those that ended before this process
// started come with the log that it replays, and are left out.
func (c *stateCollector) readEvents(v *fsm.View) {
	for c.cursor < v.LastEvent() {
		events, err := v.Events(c.cursor, eventBatch)
		if err != nil || len(events) == 0 { // so many since the last scrape that some are not kept
			c.cursor = v.LastEvent()
			return
		}
		for _, e := range events {
			c.cursor = e.GetCursor()
			r := e.GetSnapshot()
			if !fsm.Ended(r) || r.GetFinishedAt().AsTime().Before(c.started) {
				continue
			}
			kind := strings.ToUpper(r.GetType())
			if kind == "" {
				kind = "PLAN"
			}
			c.ended.WithLabelValues(r.GetPhase().String(), kind).Inc()
			if r.GetStartedAt() != nil {
				c.seconds.WithLabelValues(r.GetPhase().String()).Observe(r.GetFinishedAt().AsTime().Sub(r.GetStartedAt().AsTime()).Seconds())
			}
		}
	}
}
