package top

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	tea "charm.land/bubbletea/v2"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/internal/cli/render"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

func now() time.Time { return time.Date(2026, 5, 4, 14, 3, 7, 0, time.UTC) }

func ago(d time.Duration) *timestamppb.Timestamp { return timestamppb.New(now().Add(-d)) }

func run(id, machine string, phase holdfastv1.Run_Phase, age, atStep time.Duration) *holdfastv1.Run {
	r := &holdfastv1.Run{
		RunId: id, MachineId: machine, Type: "REPAVE", PlanId: "plan-repave", RequestId: "req-" +
			id, Principal: "alice", Phase: phase, CreatedAt: ago(age),
		Steps: []*holdfastv1.StepStatus{
			{Name: "set-netboot", State: holdfastv1.StepStatus_SUCCEEDED, StartedAt: ago(age), FinishedAt: ago(atStep)},
			{Name: "repave-os", State: holdfastv1.StepStatus_RUNNING, StartedAt: ago(atStep)},
			{Name: "verify", State: holdfastv1.StepStatus_WAITING},
		},
	}
	switch phase {
	case holdfastv1.Run_PENDING:
		r.Steps = nil
		r.QueuePosition = 3
	case holdfastv1.Run_RUNNING:
		r.StartedAt, r.CurrentStep = ago(age), "repave-os"
		r.Wait = &holdfastv1.Wait{Kind: holdfastv1.Wait_INSTALLER, Value: "reports"}
	case holdfastv1.Run_FAILED:
		r.StartedAt, r.FinishedAt = ago(age), ago(0)
		r.Error = &holdfastv1.RunError{Reason: "StepFailed", Message: "the BMC does not answer", Step: "repave-os"}
	}
	return r
}

func someRuns() map[string]*holdfastv1.Run {
	all := map[string]*holdfastv1.Run{}
	for _, r := range []*holdfastv1.Run{
		run("run-1", "m-1", holdfastv1.Run_RUNNING, 5*time.Minute, 4*time.Minute),
		run("run-2", "m-2", holdfastv1.Run_RUNNING, 9*time.Minute, 10*time.Second),
		run("run-3", "m-3", holdfastv1.Run_PENDING, 20*time.Minute, 0),
	} {
		all[r.GetRunId()] = r
	}
	return all
}

func someStatus() *holdfastv1.ClusterStatus {
	return &holdfastv1.ClusterStatus{
		ClusterId: "9f3c", Leader: "n2", Term: 4, FailureTolerance: 1, AnsweredBy: "n1",
		Peers: []*holdfastv1.Peer{
			{Id: "n1", Suffrage: "voter", MayVote: true, Alive: true, Version: "v1.2.3", AppliedIndex: 1200, LastContactMs: 12,
				Behind: 2},
			{Id: "n2", Suffrage: "voter", MayVote: true, Alive: true, Version: "v1.2.3", AppliedIndex: 1202,
				Load: &holdfastv1.PeerLoad{Leases: 300, LeaseRate: 29.7, Commands: 1000, CommitSeconds: 4}},
			{Id: "n3", Suffrage: "voter", Version: "v1.2.3", Error: "connection refused", LastContactMs: -1},
		},
	}
}

func someFleet() *Fleet {
	return &Fleet{
		Total: 300,
		States: map[holdfastv1.EffectiveState_Value]int{holdfastv1.EffectiveState_READY: 290,
			holdfastv1.EffectiveState_PROVISIONING: 8, holdfastv1.EffectiveState_MAINTENANCE: 2},
		Issues: []Issue{
			{Machine: "m-9", Urgency: render.T("minor", render.Yellow), Rank: 2, Since: now().Add(-time.Hour),
				State: holdfastv1.EffectiveState_READY, Where: "r7", What: []string{"BMCUnreachable (timeout)"}},
			{Machine: "m-7", Urgency: render.T("urgent", render.Red), Rank: 0, Since: now().Add(-time.Minute),
				State: holdfastv1.EffectiveState_MAINTENANCE, Where: "r2",
				Run: "run-1", What: []string{"NeedsIntervention (AuthFailed)", "Degraded (fan 2)"}},
		},
	}
}

// shown returns a model that has received all data.
func shown(color bool) *model {
	m := newModel(now, color)
	send(m, tea.WindowSizeMsg{Width: 110, Height: 24}, statusMsg{status: someStatus()}, fleetMsg{fleet: someFleet()},
		runsMsg{changed: someRuns()})
	return m
}

func send(m *model, msgs ...tea.Msg) {
	for _, msg := range msgs {
		m.Update(msg)
	}
}

// press presses keys such as "s", "enter" and "/".
func press(m *model, names ...string) (quit bool) {
	special := map[string]rune{"enter": tea.KeyEnter, "esc": tea.KeyEscape, "tab": tea.KeyTab, "up": tea.KeyUp,
		"down": tea.KeyDown, "pgdown": tea.KeyPgDown, "pgup": tea.KeyPgUp,
		"home": tea.KeyHome, "end": tea.KeyEnd, "backspace": tea.KeyBackspace}
	for _, name := range names {
		k := tea.KeyPressMsg{Text: name, Code: []rune(name)[0]}
		if code, ok := special[name]; ok {
			k = tea.KeyPressMsg{Code: code}
		} else if c, ok := strings.CutPrefix(name, "ctrl+"); ok {
			k = tea.KeyPressMsg{Code: rune(c[0]), Mod: tea.ModCtrl}
		}
		_, cmd := m.Update(k)
		quit = quit || cmd != nil
	}
	return quit
}

func screen(m *model) string { return m.View().Content }

func wantScreen(t *testing.T, m *model, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(screen(m), text) {
			t.Errorf("got no %q on the screen:\n%s", text, screen(m))
		}
	}
}

// order returns the first words of the rows, in order.
func order(m *model) string {
	var ids []string
	if m.tab == tabIssues {
		for _, i := range m.issues.rows {
			ids = append(ids, i.Machine)
		}
	} else {
		for _, r := range m.runList.rows {
			ids = append(ids, r.GetRunId())
		}
	}
	return strings.Join(ids, " ")
}

// fits checks that the screen fits the terminal.
func fits(t interface{ Fatalf(string, ...any) }, m *model) {
	lines := strings.Split(screen(m), "\n")
	if len(lines) > max(m.height, 1) {
		t.Fatalf("got %d lines on a terminal of %d", len(lines), m.height)
	}
	for _, l := range lines {
		if n := utf8.RuneCountInString(l); n > max(m.width, 1) {
			t.Fatalf("got a line of %d on a terminal of %d: %q", n, m.width, l)
		}
	}
}
