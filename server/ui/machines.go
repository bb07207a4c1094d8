package ui

import (
	"net/url"
	"slices"
	"strconv"
	"strings"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/ui/internal/bulk"
	"github.com/holdfast-metal/holdfast/server/ui/internal/display"
	"github.com/holdfast-metal/holdfast/server/ui/internal/fleet"
	"github.com/holdfast-metal/holdfast/server/ui/internal/lists"
)

// machinesBody is the machine list.
type machinesBody struct {
	Filter, Sort  string
	Machines      []*holdfastv1.Machine
	Columns       []column
	Rows          [][]cellText // by machine, then by column
	Cut           bool         // there are too many to sort: only the first mostSorted were sorted
	Hints         []hint
	FilterInvalid bool
	Chosen        string      // the selected columns, or "" for the default ones
	Choices       []choice    // all columns
	Actions       []bulk.Kind // on the selected machines
	Selected      bool        // all machines of this page are selected
	SelectLink    string      // selects them, or none
	pageLinks
}

// needsAttention is the filter of the machines that the overview counts, and of machine issues.
const needsAttention = "needs_attention = true"

type hint struct{ Text, Link string }

// mostSorted bounds the number of machines that are sorted. rows is the page size of lists.
const (
	mostSorted = 20000
	rows       = 100
)

func (d *dashboard) machines(v *visit) error {
	q := v.r.URL.Query()
	b := machinesBody{Filter: strings.TrimSpace(q.Get("filter")), Sort: q.Get("sort")}
	shown := b.choose(q)
	var err error
	if order := orderBy(strings.TrimPrefix(b.Sort, "-")); order != nil {
		err = b.sorted(v, order, q.Get("from"))
	} else {
		b.Sort = ""
		err = b.byID(v, q.Get("page"), firstRow(q.Get("from")))
	}
	b.fill(shown)
	b.Actions, b.Selected, b.SelectLink = v.bulkKinds(), q.Get("select") == "page", selectLink(v.r.URL)
	b.FilterInvalid = err != nil && b.Filter != ""
	filtered := func(text, filter string) hint { return hint{text, display.Link("/ui/machines", "filter", filter)} }
	b.Hints = []hint{
		filtered("needs attention", needsAttention),
		filtered("powered off", "power = OFF"),
		filtered("not reachable", "conditions.Reachable = false OR conditions.BMCReachable = false"),
		filtered("in maintenance", "phase = MAINTENANCE"),
		filtered("waiting for approval", "node_state = DISCOVERED"),
		filtered("with an active run", `active_run_id != ""`),
	}
	return v.page("machines", "Machines", "machines", b, err)
}

// selectLink returns the link of this page that selects all its machines, or none if they are.
func selectLink(page *url.URL) string {
	q := page.Query()
	if q.Get("select") == "page" {
		q.Del("select")
	} else {
		q.Set("select", "page")
	}
	return (&url.URL{Path: page.Path, RawQuery: q.Encode()}).String()
}

// byID reads one page of the list in its native order.
func (b *machinesBody) byID(v *visit, token string, from int) error {
	resp, err := v.read.machines.ListMachines(v.ctx, &holdfastv1.ListMachinesRequest{
		Filter:    b.Filter,
		PageSize:  rows,
		PageToken: token,
	})
	if err != nil {
		return err
	}
	b.Machines = resp.GetMachines()
	total, all := from-1+len(b.Machines), true
	if t := resp.GetNextPageToken(); t != "" {
		b.Next = b.link("page", t, "from", strconv.Itoa(from+len(b.Machines)))
		if total, all, err = v.machinesTotal(b.Filter); err != nil {
			return err
		}
	}
	if token != "" {
		b.First = b.link()
	}
	b.Total = totalOf(from, len(b.Machines), total, all, "machine", "machines")
	return nil
}

// machinesTotal returns the number of machines that match, or lists.MostCounted and false if
// there are more. All machines are always counted.
func (v *visit) machinesTotal(filter string) (n int, all bool, err error) {
	if filter == "" {
		f, err := v.fleets.Of(v.ctx, v.who, v.read.machines)
		if err != nil {
			return 0, false, err
		}
		return f.Total, true, nil
	}
	err = fleet.Each(v.ctx, v.read.machines, filter, func(*holdfastv1.Machine) bool {
		n++
		return n <= lists.MostCounted
	})
	return min(n, lists.MostCounted), n <= lists.MostCounted, err
}

// sorted reads all matches, up to mostSorted, sorts them and selects a page.
func (b *machinesBody) sorted(v *visit, order func(x, y *holdfastv1.Machine) int, from string) error {
	var all []*holdfastv1.Machine
	err := fleet.Each(v.ctx, v.read.machines, b.Filter, func(m *holdfastv1.Machine) bool {
		b.Cut = len(all) == mostSorted
		if !b.Cut {
			all = append(all, m)
		}
		return !b.Cut
	})
	if err != nil {
		return err
	}
	slices.SortStableFunc(all, order)
	if strings.HasPrefix(b.Sort, "-") {
		slices.Reverse(all)
	}
	n, _ := strconv.Atoi(from) // an invalid number is 0
	n = min(max(n, 0), len(all))
	b.Machines = all[n:min(n+rows, len(all))]
	b.Total = totalOf(n+1, len(b.Machines), len(all), !b.Cut, "machine", "machines")
	if n+rows < len(all) {
		b.Next = b.link("sort", b.Sort, "from", strconv.Itoa(n+rows))
	}
	if n > 0 {
		b.First = b.link("sort", b.Sort)
	}
	return nil
}

// machineBody is the page of one machine.
type machineBody struct {
	Machine                     *holdfastv1.Machine
	Why                         *holdfastv1.MachineExplanation
	Active                      *holdfastv1.Run // nil if no run is active
	Runs                        []*holdfastv1.Run
	MoreRuns                    string
	History                     []*holdfastv1.HistoryEntry
	OlderHistory                string
	Facts                       []display.Fact
	Issues                      []string                 // those that Why does not mention
	Phased                      *holdfastv1.HistoryEntry // the last change of the phase; nil: not on this page
	MayRun, MayMove, MayApprove bool
}

func (d *dashboard) machine(v *visit) error {
	m, err := v.theMachine()
	if err != nil {
		return err
	}
	id, b := m.GetMachineId(), machineBody{Machine: m, Facts: display.Facts(m)}
	b.Why, err = v.read.machines.ExplainMachine(v.ctx, &holdfastv1.ExplainMachineRequest{MachineId: id})
	if err != nil {
		return err
	}
	req := &holdfastv1.ListRunsRequest{Filter: display.Equals("machine_id", id), PageSize: 20}
	runs, err := v.read.runs.ListRuns(v.ctx, req)
	if err != nil {
		return err
	}
	if b.Runs = runs.GetRuns(); runs.GetNextPageToken() != "" {
		b.MoreRuns = display.Link("/ui/runs", "filter", display.Equals("machine_id", id))
	}
	isActive := func(r *holdfastv1.Run) bool { return r.GetRunId() == m.GetStatus().GetActiveRunId() }
	if i := slices.IndexFunc(b.Runs, isActive); i >= 0 {
		b.Active = b.Runs[i]
	}
	h, err := v.read.machines.ListMachineHistory(v.ctx, &holdfastv1.ListMachineHistoryRequest{
		MachineId: id,
		PageSize:  50,
		PageToken: v.r.URL.Query().Get("history"),
	})
	if err != nil {
		return err
	}
	if b.History = h.GetEntries(); h.GetNextPageToken() != "" {
		b.OlderHistory = display.Link("/ui/machines/"+id, "history", h.GetNextPageToken()) + "#history"
	}
	b.Issues = display.Issues(m, b.Why)
	isPhase := func(e *holdfastv1.HistoryEntry) bool { return e.GetFacet() == "phase" }
	if i := slices.IndexFunc(b.History, isPhase); i >= 0 && v.r.URL.Query().Get("history") == "" {
		b.Phased = b.History[i]
	}
	b.MayRun = v.may("RunService/StartRun")
	b.MayMove = v.may("MachineService/SetMachinePhase")
	b.MayApprove = m.GetStatus().GetNodeState() == holdfastv1.Node_DISCOVERED &&
		v.may("NodeService/TransitionNode")
	return v.page("machine", id, "machines", b, nil)
}
