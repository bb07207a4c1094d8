package ui

import (
	"cmp"
	"net/url"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/internal/describe"
	"github.com/holdfast-metal/holdfast/proto/holdfast/machinefield"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/ui/internal/display"
	"github.com/holdfast-metal/holdfast/server/ui/internal/fleet"
)

// column is the header of a shown column.
type column struct {
	Name, Link string
	Sorted     string // ascending, descending, or ""
}

// choice is a column that can be selected.
type choice struct {
	Key, Name string
	Shown     bool
}

// cellText is the content of a cell. Exactly one field is set.
type cellText struct {
	Text    string
	Machine string                    // the machine's id
	State   *holdfastv1.MachineStatus // the machine's state
	Power   *holdfastv1.MachineStatus // the machine's power
	Why     string                    // a text of up to two lines
	Run     string
	At      *timestamppb.Timestamp
}

// columnKind is a column of the machine list.
type columnKind struct {
	key, name string
	usual     bool // shown by default
	cell      func(*holdfastv1.Machine) cellText
	order     func(a, b *holdfastv1.Machine) int
}

// columnKinds returns all columns in order. The first one is always shown.
func columnKinds() []columnKind {
	text := func(key, name string, usual bool, f func(*holdfastv1.Machine) string) columnKind {
		return columnKind{key, name, usual, func(m *holdfastv1.Machine) cellText { return cellText{Text: f(m)} },
			func(a, b *holdfastv1.Machine) int { return display.Natural(f(a), f(b)) }}
	}
	when := func(key, name string, usual bool, f func(*holdfastv1.Machine) *timestamppb.Timestamp) columnKind {
		return columnKind{key, name, usual, func(m *holdfastv1.Machine) cellText { return cellText{At: f(m)} },
			func(a, b *holdfastv1.Machine) int { return f(b).AsTime().Compare(f(a).AsTime()) }}
	}
	declared := func(usual bool) (all []columnKind) {
		for f := range machinefield.All() {
			if f.GetColumn() != "" && f.GetUsual() == usual {
				all = append(all, text(f.Name(), f.GetColumn(), usual, func(m *holdfastv1.Machine) string {
					return describe.Declared(m, f)
				}))
			}
		}
		return all
	}
	return slices.Concat([]columnKind{
		{
			"machine", "Machine", true,
			func(m *holdfastv1.Machine) cellText { return cellText{Machine: m.GetMachineId()} },
			func(a, b *holdfastv1.Machine) int { return display.Natural(a.GetMachineId(), b.GetMachineId()) },
		},
		{
			"state", "State", true,
			func(m *holdfastv1.Machine) cellText { return cellText{State: m.GetStatus()} },
			byState,
		},
		{
			"run", "Run", true,
			func(m *holdfastv1.Machine) cellText { return cellText{Run: m.GetStatus().GetActiveRunId()} },
			func(a, b *holdfastv1.Machine) int {
				return display.Natural(a.GetStatus().GetActiveRunId(), b.GetStatus().GetActiveRunId())
			},
		},
		{
			"power", "Power", true,
			func(m *holdfastv1.Machine) cellText { return cellText{Power: m.GetStatus()} },
			func(a, b *holdfastv1.Machine) int {
				return cmp.Compare(b.GetStatus().GetPower(), a.GetStatus().GetPower())
			},
		},
	}, declared(true), []columnKind{
		text("phase", "Phase", false, func(m *holdfastv1.Machine) string { return display.Label(m.GetStatus().GetPhase()) }),
		text("node", "Node", false, func(m *holdfastv1.Machine) string {
			return display.Label(m.GetStatus().GetNodeState())
		}),
		text("agent", "Agent", false, func(m *holdfastv1.Machine) string {
			return display.Label(m.GetStatus().GetAgentState())
		}),
	}, declared(false), []columnKind{
		text("hostname", "Hostname", false, func(m *holdfastv1.Machine) string {
			return cmp.Or(m.GetAgent().GetHostname(), m.GetNode().GetHostname())
		}),
		text("address", "Address", false, func(m *holdfastv1.Machine) string {
			return cmp.Or(m.GetAgent().GetPrivateIp(), m.GetNode().GetIpAddress())
		}),
		text("serial_number", "Reported serial", false, func(m *holdfastv1.Machine) string {
			return m.GetNode().GetSerialNumber()
		}),
		text("model", "Model", false, func(m *holdfastv1.Machine) string {
			return strings.TrimSpace(m.GetNode().GetVendor() + " " + m.GetNode().GetModel())
		}),
		text("hardware", "Hardware", false, func(m *holdfastv1.Machine) string {
			return describe.Hardware(m.GetHardwareSummary())
		}),
		text("version", "Agent version", false, func(m *holdfastv1.Machine) string {
			return m.GetAgent().GetAgentVersion()
		}),
		when("keepalive", "Keepalive", false, func(m *holdfastv1.Machine) *timestamppb.Timestamp {
			return m.GetAgent().GetLastKeepalive()
		}),
		when("updated", "Updated", true, (*holdfastv1.Machine).GetUpdatedAt),
		{
			"why", "Why", true,
			func(m *holdfastv1.Machine) cellText { return cellText{Why: describe.Attention(m, time.Now())} },
			byState,
		},
	})
}

// byState sorts machines with the most urgent issues first, then by effective state.
func byState(a, b *holdfastv1.Machine) int {
	x, y := a.GetStatus(), b.GetStatus()
	return cmp.Or(
		cmp.Compare(fleet.Urgency(a), fleet.Urgency(b)),
		cmp.Compare(x.GetEffectiveState(), y.GetEffectiveState()),
	)
}

// orderBy returns the order of a column, or nil if there is no such column.
func orderBy(key string) func(a, b *holdfastv1.Machine) int {
	for _, k := range columnKinds() {
		if k.key == key {
			return k.order
		}
	}
	return nil
}

// choose returns the columns that the URL selects: as repeated parameters, which the form
// sends, or as one list. Without a valid column it returns the default ones.
func (b *machinesBody) choose(q url.Values) []columnKind {
	asked := q["column"]
	if len(asked) == 0 {
		asked = strings.Split(q.Get("columns"), ",")
	}
	var usual, shown []columnKind
	var keys []string
	for _, k := range columnKinds() {
		if k.usual {
			usual = append(usual, k)
		}
		if slices.Contains(asked, k.key) {
			shown, keys = append(shown, k), append(keys, k.key)
		}
	}
	if len(shown) == 0 {
		shown = usual
	} else {
		b.Chosen = strings.Join(keys, ",")
	}
	if shown[0].key != "machine" {
		shown = append(columnKinds()[:1], shown...)
	}
	for _, k := range columnKinds()[1:] {
		isShown := slices.ContainsFunc(shown, func(s columnKind) bool { return s.key == k.key })
		b.Choices = append(b.Choices, choice{k.key, k.name, isShown})
	}
	return shown
}

// fill sets the headers and cells of the table. A header links to the list sorted by its
// column, or in reverse if it is already sorted so.
func (b *machinesBody) fill(shown []columnKind) {
	for _, k := range shown {
		c, key := column{Name: k.name}, k.key
		switch b.Sort {
		case key:
			c.Sorted, key = "ascending", "-"+key
		case "-" + key:
			c.Sorted = "descending"
		}
		c.Link = b.link("sort", key)
		b.Columns = append(b.Columns, c)
	}
	for _, m := range b.Machines {
		var row []cellText
		for _, k := range shown {
			row = append(row, k.cell(m))
		}
		b.Rows = append(b.Rows, row)
	}
}

// link returns a link to this list with additional parameters.
func (b *machinesBody) link(pairs ...string) string {
	return display.Link("/ui/machines", append([]string{"filter", b.Filter, "columns", b.Chosen}, pairs...)...)
}
