package top

import (
	"cmp"
	"maps"
	"slices"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/holdfast-metal/holdfast/client"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// tab selects the visible table.
type tab int

const (
	tabRuns tab = iota
	tabIssues
	tabs
)

// statusMsg and fleetMsg are answers of the Source.
type statusMsg struct {
	status *holdfastv1.ClusterStatus
	err    error
}

type fleetMsg struct {
	fleet *Fleet
	err   error
}

// model is the state of the screen. Only the messages of Update change it.
type model struct {
	now   func() time.Time
	color bool

	width, height int
	status        *holdfastv1.ClusterStatus
	statusErr     error
	statusAt      time.Time
	fleet         *Fleet
	fleetErr      error
	watchErr      error
	runs          runs
	rates         rates

	tab      tab
	runList  list[*holdfastv1.Run]
	issues   list[Issue]
	ended    bool   // show all runs that have ended, not only the last moments'
	open     string // the run or machine that is shown alone
	scroll   int    // in what is shown alone
	typing   bool   // keys go to the search
	paused   bool   // the tables stay as they are
	helpOpen bool
}

func newModel(now func() time.Time, color bool) *model {
	m := &model{now: now, color: color, width: 80, height: 24, runs: newRuns()}
	m.runList = list[*holdfastv1.Run]{columns: runColumns(), id: (*holdfastv1.Run).GetRunId, sort: 6}
	m.issues = list[Issue]{columns: issueColumns(), id: func(i Issue) string { return i.Machine }, sort: 1}
	return m
}

// Init starts nothing: Run sends the messages.
func (m *model) Init() tea.Cmd { return nil }

// Update handles a key, a new terminal size, or an answer.
func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case statusMsg:
		m.statusErr = msg.err
		if msg.err == nil {
			m.status, m.statusAt = msg.status, m.now()
			m.rates.add(msg.status, m.statusAt)
		}
	case fleetMsg:
		m.fleetErr = msg.err
		if msg.err == nil {
			m.fleet = msg.fleet
		}
	case runsMsg:
		m.watchErr = msg.err
		m.runs.apply(msg)
	case tea.KeyPressMsg:
		if m.key(msg) {
			return m, tea.Quit
		}
	}
	if !m.paused {
		m.arrange()
	}
	return m, nil
}

// shownAfterEnd is the time that an ended run stays among the active ones, long enough to be seen.
const shownAfterEnd = 10 * time.Second

// arrange fills the tables.
func (m *model) arrange() {
	now := m.now()
	all := slices.Collect(maps.Values(m.runs.active))
	for _, r := range m.runs.ended {
		if m.ended || now.Sub(r.GetFinishedAt().AsTime()) < shownAfterEnd {
			all = append(all, r)
		}
	}
	m.runList.set(all, func(a, b *holdfastv1.Run) int { return cmp.Compare(group(a), group(b)) }, now)
	if m.fleet != nil {
		m.issues.set(m.fleet.Issues, nil, now)
	}
}

// group sorts running runs before waiting ones, and both before ended ones.
func group(r *holdfastv1.Run) int {
	switch {
	case client.Finished(r):
		return 2
	case r.GetPhase() == holdfastv1.Run_PENDING:
		return 1
	}
	return 0
}
