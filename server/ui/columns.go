package ui

import (
	"cmp"
	"net/url"
	"slices"
	"strings"

	"google.golang.org/protobuf/types/known/timestamppb"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// column is the head of a column that is shown.
type column struct {
	Name, Link string
	Sorted     string // ascending, descending, or ""
}

// choice is a column that can be shown.
type choice struct {
	Key, Name string
	Shown     bool
}

// cellText is what a machine has in a column. One of them is set.
type cellText struct {
	Text    string
	Machine string                    // the machine itself
	State   *holdfastv1.MachineStatus // its state, with what is wrong with it
	Run     string
	At      *timestamppb.Timestamp
}

// columnKind is a column of the list of machines.
type columnKind struct {
	key, name string
	usual     bool // shown where nobody has chosen
	cell      func(*holdfastv1.Machine) cellText
	order     func(a, b *holdfastv1.Machine) int
}

// columnKinds are all columns, in order. The first is always shown.
func columnKinds() []columnKind {
	text := func(key, name string, usual bool, f func(*holdfastv1.Machine) string) columnKind {
		return columnKind{key, name, usual, func(m *holdfastv1.Machine) cellText { return cellText{Text: f(m)} },
			func(a, b *holdfastv1.Machine) int { return natural(f(a), f(b)) }}
	}
	when := func(key, name string, usual bool, f func(*holdfastv1.Machine) *timestamppb.Timestamp) columnKind {
		return columnKind{key, name, usual, func(m *holdfastv1.Machine) cellText { return cellText{At: f(m)} },
			func(a, b *holdfastv1.Machine) int { return f(b).AsTime().Compare(f(a).AsTime()) }}
	}
	return []columnKind{
		{"machine", "Machine", true, func(m *holdfastv1.Machine) cellText { return cellText{Machine: m.GetMachineId()} },
			func(a, b *holdfastv1.Machine) int { return natural(a.GetMachineId(), b.GetMachineId()) }},
		{"state", "State", true, func(m *holdfastv1.Machine) cellText { return cellText{State: m.GetStatus()} }, byState},
		{"run", "Run", true, func(m *holdfastv1.Machine) cellText { return cellText{Run: m.GetStatus().GetActiveRunId()} },
			func(a, b *holdfastv1.Machine) int {
				return natural(a.GetStatus().GetActiveRunId(), b.GetStatus().GetActiveRunId())
			}},
		text("pool", "Pool", true, func(m *holdfastv1.Machine) string { return m.GetSpec().GetPool() }),
		text("location", "Location", true, func(m *holdfastv1.Machine) string { return m.GetSpec().GetLocation() }),
		text("rack", "Rack", true, func(m *holdfastv1.Machine) string { return m.GetSpec().GetRack() }),
		text("phase", "Phase", false, func(m *holdfastv1.Machine) string { return label(m.GetStatus().GetPhase()) }),
		text("node", "Node", false, func(m *holdfastv1.Machine) string { return label(m.GetStatus().GetNodeState()) }),
		text("agent", "Agent", false, func(m *holdfastv1.Machine) string { return label(m.GetStatus().GetAgentState()) }),
		text("provider", "Provider", false, func(m *holdfastv1.Machine) string { return first(m.GetSpec().GetProvider(), m.GetLabels()["provider"]) }),
		text("hostname", "Hostname", false, func(m *holdfastv1.Machine) string {
			return first(m.GetAgent().GetHostname(), m.GetNode().GetHostname())
		}),
		text("address", "Address", false, func(m *holdfastv1.Machine) string {
			return first(m.GetAgent().GetPrivateIp(), m.GetNode().GetIpAddress())
		}),
		text("serial", "Serial", false, func(m *holdfastv1.Machine) string {
			return first(m.GetSpec().GetSerial(), m.GetNode().GetSerialNumber())
		}),
		text("model", "Model", false, func(m *holdfastv1.Machine) string {
			return strings.TrimSpace(m.GetNode().GetVendor() + " " + m.GetNode().GetModel())
		}),
		text("version", "Agent version", false, func(m *holdfastv1.Machine) string { return m.GetAgent().GetAgentVersion() }),
		when("keepalive", "Keepalive", false, func(m *holdfastv1.Machine) *timestamppb.Timestamp { return m.GetAgent().GetLastKeepalive() }),
		when("updated", "Updated", true, (*holdfastv1.Machine).GetUpdatedAt),
	}
}

// byState puts those first that somebody should look at.
func byState(a, b *holdfastv1.Machine) int {
	return cmp.Or(cmp.Compare(len(b.GetStatus().GetBanners()), len(a.GetStatus().GetBanners())), cmp.Compare(a.GetStatus().GetEffectiveState(), b.GetStatus().GetEffectiveState()))
}

// orderBy is how a column sorts; nil: there is no such column.
func orderBy(key string) func(a, b *holdfastv1.Machine) int {
	for _, k := range columnKinds() {
		if k.key == key {
			return k.order
		}
	}
	return nil
}

// choose takes the columns that the address asks for: one by one, as the form sends them, or all in
// one. Without any that are known it is the usual ones.
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
		b.Choices = append(b.Choices, choice{k.key, k.name, slices.ContainsFunc(shown, func(s columnKind) bool { return s.key == k.key })})
	}
	return shown
}

// fill words the heads of the table, which sort by their column, and once more the other way, and
// its cells.
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

// link leads to this list with something else of it.
func (b *machinesBody) link(pairs ...string) string {
	return link("/ui/machines", append([]string{"filter", b.Filter, "columns", b.Chosen}, pairs...)...)
}
