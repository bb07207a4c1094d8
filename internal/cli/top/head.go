package top

import (
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-metal/holdfast/internal/cli/render"
	"github.com/holdfast-metal/holdfast/internal/describe"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// mostPeers is the maximum number of peers with a line of their own.
const mostPeers = 7

// silent is the time in milliseconds without a leader after which the figures of a peer are
// marked as old: elections take less.
const silent = 5000

// head returns the lines above the tables.
func (m *model) head() []render.Line {
	lines := []render.Line{m.titleLine(), m.fleetLine(), m.loadLine()}
	lines = append(lines, m.trouble()...)
	if m.height >= 16 {
		lines = append(lines, m.peerLines()...)
	}
	return append(lines, nil)
}

func (m *model) titleLine() render.Line {
	l := render.Line{render.T("holdfast top", render.Bold), plain("  " + clock(m.now()))}
	s := m.status
	if s == nil {
		return append(l, render.T("  reading the cluster's status …", render.Faint))
	}
	leader := render.T("no leader", render.Red)
	if s.GetLeader() != "" {
		leader = render.T("leader "+s.GetLeader(), render.Green)
	}
	tolerance := render.T(fmt.Sprintf("%d may fail", s.GetFailureTolerance()), render.Plain)
	if s.GetFailureTolerance() == 0 {
		tolerance = render.T("none may fail", render.Yellow)
	}
	return append(l, plain("  "), leader, plain(fmt.Sprintf("  term %d  ", s.GetTerm())), tolerance,
		render.T(fmt.Sprintf("  cluster %s, according to %s", s.GetClusterId(), s.GetAnsweredBy()), render.Faint))
}

// trouble returns a warning about the figures themselves.
func (m *model) trouble() []render.Line {
	var lines []render.Line
	warn := func(format string, args ...any) {
		lines = append(lines, render.Line{render.T("! "+fmt.Sprintf(format, args...), render.Red)})
	}
	if m.statusErr != nil {
		age := ""
		if !m.statusAt.IsZero() {
			age = ", the last answer is from " + clock(m.statusAt)
		}
		warn("no peer answers%s: %v", age, m.statusErr)
	} else if m.fleetErr != nil {
		warn("machines cannot be counted: %v", m.fleetErr)
	}
	if m.watchErr != nil && m.statusErr == nil {
		warn("runs cannot be followed: %v", m.watchErr)
	}
	for _, p := range m.status.GetPeers() {
		if p.GetId() == m.status.GetAnsweredBy() && p.GetLastContactMs() > silent {
			warn("%s has not heard a leader for %s: its figures may be as old", p.GetId(),
				describe.Duration(time.Duration(p.GetLastContactMs())*time.Millisecond))
		}
	}
	return lines
}

func (m *model) fleetLine() render.Line {
	if m.fleet == nil {
		return render.Line{plain("machines  "), render.T("counting …", render.Faint)}
	}
	l := render.Line{render.T(fmt.Sprintf("machines  %d", m.fleet.Total), render.Bold)}
	for s := holdfastv1.EffectiveState_FACTORY_READY; int(s) < len(holdfastv1.EffectiveState_Value_name); s++ {
		n := m.fleet.States[s]
		if s == holdfastv1.EffectiveState_READY {
			n -= m.fleet.Absent
		}
		if n > 0 {
			l = append(l, plain(fmt.Sprintf("  %d ", n)), render.State(s.String()))
		}
	}
	if n := m.fleet.Absent; n > 0 {
		l = append(l, render.T(fmt.Sprintf("  %d in service, in no cluster", n), render.Red))
	}
	if n := len(m.fleet.Issues); n > 0 {
		l = append(l, render.T(fmt.Sprintf("  %d need attention", n), render.Red))
	}
	return l
}

func (m *model) loadLine() render.Line {
	l := render.Line{plain(fmt.Sprintf("leases    %d, %s/s", m.rates.leases, rate(m.rates.renewals)))}
	if m.rates.known {
		l = append(l, plain(fmt.Sprintf("   commands %s/s", rate(m.rates.commands))))
		if m.rates.commit > 0 {
			l = append(l, plain(fmt.Sprintf(", %s each", m.rates.commit.Round(100*time.Microsecond))))
		}
	}
	pending := 0
	for _, r := range m.runs.active {
		if r.GetPhase() == holdfastv1.Run_PENDING {
			pending++
		}
	}
	l = append(l, plain(fmt.Sprintf("   runs %d running, %d pending", len(m.runs.active)-pending, pending)))
	for _, p := range []holdfastv1.Run_Phase{holdfastv1.Run_SUCCEEDED, holdfastv1.Run_FAILED, holdfastv1.Run_CANCELED} {
		if n := m.runs.phases[p]; n > 0 {
			t := render.State(p.String())
			t.Value = fmt.Sprintf(", %d %s", n, strings.ToLower(t.Value))
			l = append(l, t)
		}
	}
	return l
}

// rate formats a number per second.
func rate(x float64) string {
	if x < 10 {
		return fmt.Sprintf("%.1f", x)
	}
	return fmt.Sprintf("%.0f", x)
}

// peerLines returns a line for each peer: its id, its lag, and the time since it last heard
// from the leader.
func (m *model) peerLines() []render.Line {
	var lines []render.Line
	peers := m.status.GetPeers()
	for i, p := range peers {
		if i == mostPeers {
			lines = append(lines, render.Line{render.T(fmt.Sprintf("          and %d more", len(peers)-i),
				render.Faint)})
			break
		}
		name := "          "
		if i == 0 {
			name = "peers     "
		}
		role := p.GetSuffrage()
		if p.GetId() == m.status.GetLeader() {
			role = "leader"
		}
		l := render.Line{plain(name + pad(p.GetId(), 12)), pick(render.State(role), pad(role, 10))}
		switch {
		case p.GetError() != "":
			l = append(l, render.T(p.GetError(), render.Red))
		case !p.GetMayVote() && role == "voter":
			l = append(l, render.T("does not vote yet: it catches up", render.Yellow))
		default:
			l = append(l, plain(fmt.Sprintf("index %d, ", p.GetAppliedIndex())), lag(p))
			if role != "leader" && p.GetLastContactMs() >= 0 {
				l = append(l, plain(fmt.Sprintf(", heard the leader %d ms ago", p.GetLastContactMs())))
			}
		}
		lines = append(lines, append(l, render.T("  "+p.GetVersion(), render.Faint)))
	}
	return lines
}

// far is the lag in entries from which it is colored.
const far = 1000

func lag(p *holdfastv1.Peer) render.Text {
	t := plain(fmt.Sprintf("%d behind", p.GetBehind()))
	if p.GetBehind() > far {
		t.Style = render.Yellow
	}
	return t
}

func pick(t render.Text, value string) render.Text {
	t.Value = value
	return t
}

func pad(s string, n int) string { return s + strings.Repeat(" ", max(n-len([]rune(s)), 1)) }
