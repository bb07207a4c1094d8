package ui

import (
	"slices"
	"strconv"
	"strings"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// machinesBody is the machine list.
type machinesBody struct {
	Filter, Sort  string
	Machines      []*holdfastv1.Machine
	Columns       []column
	Rows          [][]cellText // by machine, then by column
	From, Total   int          // Total is -1 if not counted
	Next, First   string
	Cut           bool // there are too many to sort: only the first mostSorted were sorted
	Hints         []hint
	FilterInvalid bool
	Chosen        string   // the selected columns, or "" for the default ones
	Choices       []choice // all columns
}

type hint struct{ Text, Link string }

// mostSorted bounds the number of machines that are sorted. rows is the page size of lists.
const (
	mostSorted = 20000
	rows       = 100
)

func (d *dashboard) machines(v *visit) error {
	q := v.r.URL.Query()
	b := machinesBody{Filter: strings.TrimSpace(q.Get("filter")), Sort: q.Get("sort"), Total: -1}
	shown := b.choose(q)
	var err error
	if order := orderBy(strings.TrimPrefix(b.Sort, "-")); order != nil {
		err = b.sorted(v, order, q.Get("from"))
	} else {
		b.Sort = ""
		err = b.byID(v, q.Get("page"))
	}
	b.fill(shown)
	b.FilterInvalid = err != nil && b.Filter != ""
	filtered := func(text, filter string) hint { return hint{text, link("/ui/machines", "filter", filter)} }
	b.Hints = []hint{
		filtered("needs attention", "conditions.NeedsIntervention = true OR conditions.Degraded = true"),
		filtered("not reachable", "conditions.Reachable = false OR conditions.BMCReachable = false"),
		filtered("in maintenance", "phase = MAINTENANCE"),
		filtered("waiting for approval", "node_state = DISCOVERED"),
		filtered("with an active run", `active_run_id != ""`),
	}
	return v.page("machines", "Machines", "machines", b, err)
}

// byID reads one page of the list in its native order.
func (b *machinesBody) byID(v *visit, token string) error {
	resp, err := v.read.machines.ListMachines(v.ctx, &holdfastv1.ListMachinesRequest{
		Filter:    b.Filter,
		PageSize:  rows,
		PageToken: token,
	})
	if err != nil {
		return err
	}
	b.Machines = resp.GetMachines()
	if t := resp.GetNextPageToken(); t != "" {
		b.Next = b.link("page", t)
	}
	if token != "" {
		b.First = b.link()
	}
	return nil
}

// sorted reads all matches, up to mostSorted, sorts them and selects a page.
func (b *machinesBody) sorted(v *visit, order func(x, y *holdfastv1.Machine) int, from string) error {
	var all []*holdfastv1.Machine
	err := everyMachine(v.ctx, v.read.machines, b.Filter, func(m *holdfastv1.Machine) bool {
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
	b.From, b.Total = n, len(all)
	b.Machines = all[n:min(n+rows, len(all))]
	if n+rows < len(all) {
		b.Next = b.link("sort", b.Sort, "from", strconv.Itoa(n+rows))
	}
	if n > 0 {
		b.First = b.link("sort", b.Sort)
	}
	return nil
}
