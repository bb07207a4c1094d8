package demo

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/providers/fake"
)

// report is the result of a demo. Scripts read its JSON, so names must not change.
type report struct {
	OK       bool           `json:"ok"`
	Problems []string       `json:"problems"` // why not ok; empty when ok
	Machines int            `json:"machines"`
	Runs     map[string]int `json:"runs"` // by phase
	Retries  int            `json:"retries"`

	LeaderKilled bool   `json:"leader_killed"`
	KilledPeer   string `json:"killed_peer"`
	NewLeader    string `json:"new_leader"`
	FailoverMS   int64  `json:"failover_ms"` // from SIGKILL to the first write that was acknowledged again
	Adopted      int    `json:"attempts_taken_over"`

	PowerActionsAsked      int `json:"power_actions_asked"`
	PowerActionsSeen       int `json:"power_actions_seen"`
	DuplicatedPowerActions int `json:"duplicated_power_actions"`
	MissingPowerActions    int `json:"missing_power_actions"`

	DestructiveEffects    map[string]int   `json:"destructive_effects"` // seen, by kind
	DuplicatedDestructive int              `json:"duplicated_destructive_effects"`
	MissingDestructive    int              `json:"missing_destructive_effects"`
	Effects               map[string]tally `json:"effects"` // by kind, all that were compared

	Seconds float64 `json:"seconds"`       // from the start until the record was compared
	Dir     string  `json:"dir,omitempty"` // of the peers' data and logs, when they were kept

	order  []string // of Effects
	killAt string   // the progress when the leader was killed, in words
}

// maxFindings is the maximum number of findings in the report.
const maxFindings = 10

// newReport compares the record of all runs with the effects that the hardware counted.
func newReport(machines int, runs []*holdfastv1.Run, effects []fake.Effect, f failover, took time.Duration) *report {
	c := compare(runs, effects)
	power := c.total(isPower)
	destructive := c.total(func(e string) bool { return e != powerOn })
	r := &report{
		Problems: []string{}, Machines: machines, Runs: map[string]int{}, Effects: c.Effects, order: c.inOrder(),
		LeaderKilled: f.killed != "",
		KilledPeer:   f.killed,
		NewLeader:    f.leader,
		FailoverMS:   f.took.Milliseconds(), killAt: f.at,
		PowerActionsAsked: power.Asked, PowerActionsSeen: power.Seen,
		DuplicatedPowerActions: power.Duplicated, MissingPowerActions: power.Missing,
		DestructiveEffects:    map[string]int{},
		DuplicatedDestructive: destructive.Duplicated,
		MissingDestructive:    destructive.Missing,
		Seconds:               float64(took.Milliseconds()) / 1000,
	}
	for _, e := range effects {
		if e.Destructive {
			r.DestructiveEffects[e.Effect]++
		}
	}
	for _, run := range runs {
		r.Runs[run.GetPhase().String()]++
		for _, s := range run.GetSteps() {
			for _, a := range s.GetAttempts() {
				if a.GetOutcome() == holdfastv1.Attempt_FAILED {
					r.Retries++
				}
				if len(a.GetEpochs()) > 1 {
					r.Adopted++
				}
			}
		}
	}
	r.judge(runs, c.Findings)
	return r
}

// judge adds the problems to the report.
func (r *report) judge(runs []*holdfastv1.Run, findings []string) {
	problem := func(format string, args ...any) { r.Problems = append(r.Problems, fmt.Sprintf(format, args...)) }
	if n := r.Machines - r.Runs[holdfastv1.Run_SUCCEEDED.String()]; n != 0 {
		problem("%d of %d runs did not succeed", n, r.Machines)
		shown := 0
		for _, run := range runs {
			if run.GetPhase() != holdfastv1.Run_SUCCEEDED && shown < maxFindings {
				shown++
				problem("run %s of %s is %s at step %s: %s", run.GetRunId(), run.GetMachineId(), run.GetPhase(),
					run.GetCurrentStep(), why(run))
			}
		}
	}
	switch {
	case !r.LeaderKilled:
		problem("no leader was killed")
	case r.NewLeader == "" || r.NewLeader == r.KilledPeer:
		problem("no other peer has become the leader")
	}
	// An empty record would agree with any hardware.
	for _, e := range []string{powerOff, powerOn, install} {
		if n, want := r.Effects[e].Asked, r.Runs[holdfastv1.Run_SUCCEEDED.String()]; n < want {
			problem("%s succeeded, but the record has only %d %s", plural(want, "run", "runs"), n, e)
		}
	}
	for i, f := range findings {
		if i == maxFindings {
			problem("and %d more", len(findings)-i)
			break
		}
		problem("%s", f)
	}
	r.OK = len(r.Problems) == 0
}

// why returns the reason why a run has not succeeded.
func why(run *holdfastv1.Run) string {
	if msg := run.GetError().GetMessage(); msg != "" {
		return msg
	}
	if w := run.GetWaitingFor(); w != "" {
		return "waiting for " + w
	}
	return "no recorded reason"
}

// err returns an error if there are problems.
func (r *report) err() error {
	if r.OK {
		return nil
	}
	return fmt.Errorf("check the demo: %s", strings.Join(r.Problems, "; "))
}

// write writes the report as JSON.
func (r *report) write(w io.Writer) error {
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	if _, err := w.Write(append(b, '\n')); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

// phases returns the phases of the runs, SUCCEEDED first.
func (r *report) phases() []string {
	rank := func(phase string) int {
		if phase == holdfastv1.Run_SUCCEEDED.String() {
			return -1
		}
		return int(holdfastv1.Run_Phase_value[phase])
	}
	return slices.SortedFunc(maps.Keys(r.Runs), func(a, b string) int { return rank(a) - rank(b) })
}
