package ui

import (
	"net/url"
	"slices"
	"strconv"
	"strings"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// machinesBody is the list of machines.
type machinesBody struct {
	Filter, Sort  string
	Machines      []*holdfastv1.Machine
	Columns       []column
	Rows          [][]cellText // by machine, then by column
	From, Total   int          // Total -1: not counted
	Next, First   string
	Cut           bool // too many to sort: only the first mostSorted were looked at
	Hints         []hint
	FilterInvalid bool
	Chosen        string   // the columns, where they are others than the usual ones
	Choices       []choice // all there are
}

type hint struct{ Text, Link string }

// mostSorted is how many machines are looked at to sort them; rows is how many a page has.
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
	b.Hints = []hint{
		{"needs attention", link("/ui/machines", "filter", "conditions.NeedsIntervention = true OR conditions.Degraded = true")},
		{"not reachable", link("/ui/machines", "filter", "conditions.Reachable = false OR conditions.BMCReachable = false")},
		{"in maintenance", link("/ui/machines", "filter", "phase = MAINTENANCE")},
		{"waiting for approval", link("/ui/machines", "filter", "node_state = DISCOVERED")},
		{"with a run", link("/ui/machines", "filter", `active_run_id != ""`)},
	}
	return v.page("machines", "Machines", "machines", b, err)
}

// byID takes one page of the list as it is.
func (b *machinesBody) byID(v *visit, token string) error {
	resp, err := v.read.machines.ListMachines(v.ctx, &holdfastv1.ListMachinesRequest{Filter: b.Filter, PageSize: rows, PageToken: token})
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

// sorted takes all that match, sorts them, and takes a page of that.
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
	n, _ := strconv.Atoi(from) // what is no number is the beginning
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

// link makes an address with a query; what is empty is left out.
func link(path string, pairs ...string) string {
	q := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			q.Set(pairs[i], pairs[i+1])
		}
	}
	if len(q) == 0 {
		return path
	}
	return path + "?" + q.Encode()
}
