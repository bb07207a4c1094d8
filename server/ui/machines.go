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
		err = b.sorted(v, order, firstRow(q.Get("from"))-1)
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

// sorted reads all matches, up to mostSorted, sorts them, and selects the page that begins after n.
func (b *machinesBody) sorted(v *visit, order func(x, y *holdfastv1.Machine) int, n int) error {
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
	n = min(n, len(all))
	b.Machines = all[n:min(n+rows, len(all))]
	b.Total = totalOf(n+1, len(b.Machines), len(all), !b.Cut, "machine", "machines")
	if n+rows < len(all) {
		b.Next = b.link("sort", b.Sort, "from", strconv.Itoa(n+rows+1))
	}
	if n > 0 {
		b.First = b.link("sort", b.Sort)
	}
	return nil
}
