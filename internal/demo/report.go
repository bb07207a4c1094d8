package demo

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-metal/holdfast/internal/cli/render"
	"github.com/holdfast-metal/holdfast/internal/describe"
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
	Adopted      int    `json:"attempts_adopted"`

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

	killAt string // the progress when the leader was killed, in words
}

// maxFindings is the maximum number of findings in the report.
const maxFindings = 10

// newReport compares the record of all runs with the effects that the hardware counted.
func newReport(machines int, runs []*holdfastv1.Run, effects []fake.Effect, f failover, took time.Duration) *report {
	sums, findings := compare(runs, effects)
	off, on := sums[powerOff], sums[powerOn]
	r := &report{
		Problems: []string{}, Machines: machines, Runs: map[string]int{},
		LeaderKilled: f.killed != "", KilledPeer: f.killed, NewLeader: f.leader, FailoverMS: f.took.Milliseconds(),
		PowerActionsAsked: off.Asked + on.Asked, PowerActionsSeen: off.Seen + on.Seen,
		DuplicatedPowerActions: off.Duplicated + on.Duplicated, MissingPowerActions: off.Missing + on.Missing,
		DestructiveEffects: map[string]int{}, Effects: sums,
		Seconds: float64(took.Milliseconds()) / 1000, killAt: f.at,
	}
	for effect, t := range sums {
		if effect != powerOn {
			r.DestructiveEffects[effect] = t.Seen
			r.DuplicatedDestructive += t.Duplicated
			r.MissingDestructive += t.Missing
		}
	}
	for _, run := range runs {
		r.Runs[run.GetPhase().String()]++
		c, _ := count(run)
		r.Retries += c.failed
		r.Adopted += c.adopted
	}
	r.judge(runs, findings)
	return r
}

// judge adds the problems to the report.
func (r *report) judge(runs []*holdfastv1.Run, findings []string) {
	problem := func(format string, args ...any) { r.Problems = append(r.Problems, fmt.Sprintf(format, args...)) }
	succeeded := r.Runs[holdfastv1.Run_SUCCEEDED.String()]
	if n := r.Machines - succeeded; n != 0 {
		problem("%d of %d runs did not succeed", n, r.Machines)
	}
	for _, run := range runs {
		if run.GetPhase() != holdfastv1.Run_SUCCEEDED && len(r.Problems) <= maxFindings {
			why, _ := describe.Why(run)
			problem("run %s of %s is %s at step %s: %s", run.GetRunId(), run.GetMachineId(), run.GetPhase(),
				run.GetCurrentStep(), cmp.Or(why, "no recorded reason"))
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
		if n := r.Effects[e].Asked; n < succeeded {
			problem("%s succeeded, but the record has only %d %s", describe.Number(succeeded, "run"), n, e)
		}
	}
	for _, f := range findings[:min(len(findings), maxFindings)] {
		problem("%s", f)
	}
	if more := len(findings) - maxFindings; more > 0 {
		problem("and %d more", more)
	}
	r.OK = len(r.Problems) == 0
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
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// summary returns the report for people.
func (r *report) summary() string {
	var b strings.Builder
	line := func(format string, args ...any) { b.WriteString(fmt.Sprintf("  "+format, args...) + "\n") }
	var phases []string
	for _, phase := range slices.Sorted(maps.Keys(r.Runs)) {
		phases = append(phases, fmt.Sprintf("%d %s", r.Runs[phase], phase))
	}
	b.WriteString("\n")
	line("runs     %s of %s, with %s, in %.1f s", strings.Join(phases, ", "), describe.Number(r.Machines, "machine"),
		describe.Number(r.Retries, "failed attempt"), r.Seconds)
	if r.LeaderKilled {
		line("leader   %s killed with SIGKILL at %s, now %s leads", r.KilledPeer, r.killAt, r.NewLeader)
		line("writes   paused for %d ms", r.FailoverMS)
		line("attempts %d left open by the killed leader and adopted by the next", r.Adopted)
	}
	if r.Dir != "" {
		line("files    %s", r.Dir)
	}
	b.WriteString("\n")
	line("%-12s %18s %18s %12s %9s", "effect", "recorded", "seen by hardware", "duplicated", "missing")
	for _, e := range slices.Sorted(maps.Keys(r.Effects)) {
		t := r.Effects[e]
		line("%-12s %18d %18d %12d %9d", e, t.Asked, t.Seen, t.Duplicated, t.Missing)
	}
	b.WriteString("\n")
	if r.OK {
		line("Every button pressed, every disk written: exactly as often as recorded.")
		return b.String()
	}
	line("Problems:")
	for _, p := range r.Problems {
		line("  %s", render.Clean(p))
	}
	return b.String()
}
