package statemetrics

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// countPause is the time for which a count of all machines is cached, as a multiple of its
// duration. So counting costs at most 5 % of a core, for any number of machines and
// scrapes.
const countPause = 20

// eventBatch is the maximum number of events that are read from the state at once.
const eventBatch = 256

// stateCollector collects metrics from the state at each scrape.
type stateCollector struct {
	state                     State
	machines, held, lastEvent *prometheus.Desc
	conditions, age, inPhase  *prometheus.Desc
	records, backup           *prometheus.Desc
	runs                      *runCollector
	started                   time.Time

	mu     sync.Mutex // guards the following; scrapes may overlap
	counts map[holdfastv1.EffectiveState_Value]int
	conds  map[condStatus]int
	oldest map[string]float64 // age of the oldest observation in seconds, by type of condition
	phases map[string]float64 // longest time of a machine in its phase in seconds, by phase
	again  time.Time          // time of the next count
	cursor uint64             // runs counts the events up to here
}

// condStatus is a type of condition and its status.
type condStatus struct{ kind, status string }

// newStateCollector returns a collector that ignores runs that have ended before.
func newStateCollector(state State) *stateCollector {
	return &stateCollector{
		state: state,
		machines: prometheus.NewDesc("holdfast_machines",
			"Machines by effective state.", []string{"effective_state"}, nil),
		conditions: prometheus.NewDesc("holdfast_condition",
			"Machines by condition and its status: true, false or unknown.", []string{"type", "status"}, nil),
		age: prometheus.NewDesc("holdfast_condition_oldest_seconds",
			"Age of the oldest observation among the conditions that are polled and not unknown.",
			[]string{"type"}, nil),
		held: prometheus.NewDesc("holdfast_plans_held",
			"Plans whose new runs wait for a release, because the last ones failed in the same way.", nil, nil),
		lastEvent: prometheus.NewDesc("holdfast_run_events_total",
			"Transitions of runs ever recorded: the cursor of the newest one.", nil, nil),
		inPhase: prometheus.NewDesc("holdfast_machine_phase_oldest_seconds",
			"The longest time that a machine has been in its phase.", []string{"phase"}, nil),
		records: prometheus.NewDesc("holdfast_fsm_records",
			"Records of the replicated state by table.", []string{"table"}, nil),
		backup: prometheus.NewDesc("holdfast_last_backup_timestamp_seconds",
			"When the newest completely saved snapshot was taken, in seconds since 1970. 0: there is none.",
			nil, nil),
		runs:    newRunCollector(),
		started: time.Now(),
		cursor:  state.View().LastRunEvent(),
	}
}

// Describe implements prometheus.Collector.
func (c *stateCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- c.machines
	ch <- c.conditions
	ch <- c.age
	ch <- c.inPhase
	ch <- c.records
	ch <- c.backup
	ch <- c.held
	ch <- c.lastEvent
	c.runs.describe(ch)
}

// Collect implements prometheus.Collector.
func (c *stateCollector) Collect(ch chan<- prometheus.Metric) {
	c.mu.Lock()
	defer c.mu.Unlock()
	v := c.state.View()
	c.collectMachines(ch, v)
	held := 0
	for p := range v.Plans("") {
		if p.GetBrake() != nil || len(p.GetHeld()) > 0 {
			held++
		}
	}
	ch <- prometheus.MustNewConstMetric(c.held, prometheus.GaugeValue, float64(held))
	ch <- prometheus.MustNewConstMetric(c.lastEvent, prometheus.CounterValue, float64(v.LastRunEvent()))
	lastBackup := float64(v.Meta().GetLastBackup().AsTime().UnixMilli()) / 1000
	ch <- prometheus.MustNewConstMetric(c.backup, prometheus.GaugeValue, lastBackup)
	c.readEvents(v)
	c.runs.collect(ch, v, time.Now())
	for table, n := range v.Sizes() {
		ch <- prometheus.MustNewConstMetric(c.records, prometheus.GaugeValue, float64(n), table)
	}
}

// collectMachines collects the metrics of machines, from a cached count if it is recent.
func (c *stateCollector) collectMachines(ch chan<- prometheus.Metric, v *fsm.View) {
	if now := time.Now(); !now.Before(c.again) {
		c.counts, c.conds = map[holdfastv1.EffectiveState_Value]int{}, map[condStatus]int{}
		c.oldest, c.phases = map[string]float64{}, map[string]float64{}
		for m := range v.Machines("") {
			c.counts[m.GetStatus().GetEffectiveState()]++
			if since := m.GetStatus().GetPhaseChangedAt(); since != nil {
				phase := m.GetStatus().GetPhase().String()
				c.phases[phase] = max(c.phases[phase], now.Sub(since.AsTime()).Seconds())
			}
			for _, cond := range m.GetStatus().GetConditions() {
				c.conds[condStatus{cond.GetType(), fsm.ConditionStatus(cond)}]++
				if cond.GetFreshUntil() != nil && !cond.GetUnknown() {
					age := now.Sub(cond.GetObservedAt().AsTime()).Seconds()
					c.oldest[cond.GetType()] = max(c.oldest[cond.GetType()], age)
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
	for phase, seconds := range c.phases {
		ch <- prometheus.MustNewConstMetric(c.inPhase, prometheus.GaugeValue, seconds, phase)
	}
	for n, name := range holdfastv1.EffectiveState_Value_name {
		value := holdfastv1.EffectiveState_Value(n)
		if value != holdfastv1.EffectiveState_EFFECTIVE_STATE_UNSPECIFIED {
			ch <- prometheus.MustNewConstMetric(c.machines, prometheus.GaugeValue, float64(c.counts[value]), name)
		}
	}
}

// readEvents counts the runs that have ended since the last scrape. It ignores runs that
// ended before this process started, because a peer replays the log at its start.
func (c *stateCollector) readEvents(v *fsm.View) {
	for c.cursor < v.LastRunEvent() {
		events, err := v.RunEvents(c.cursor, eventBatch)
		if err != nil || len(events) == 0 { // some events since the last scrape are no longer kept
			c.cursor = v.LastRunEvent()
			return
		}
		for _, e := range events {
			c.cursor = e.GetCursor()
			r := e.GetSnapshot()
			if !fsm.Ended(r) || r.GetFinishedAt().AsTime().Before(c.started) {
				continue
			}
			c.runs.countEnded(r)
		}
	}
}
