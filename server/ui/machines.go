package ui

import (
	"cmp"
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
	From, Total   int // Total -1: not counted
	Next, First   string
	Cut           bool // too many to sort: only the first mostSorted were looked at
	Hints         []hint
	FilterInvalid bool
}

type column struct {
	Name, Link string
	Sorted     string // ascending, descending, or ""
}

type hint struct{ Text, Link string }

// mostSorted is how many machines are looked at to sort them; rows is how many a page has.
const (
	mostSorted = 20000
	rows       = 100
)

// orders are the columns that machines can be sorted by. Without one they come by id, page by page, however many there are.
func orders() map[string]func(a, b *holdfastv1.Machine) int {
	by := func(f func(*holdfastv1.Machine) string) func(a, b *holdfastv1.Machine) int {
		return func(a, b *holdfastv1.Machine) int { return natural(f(a), f(b)) }
	}
	return map[string]func(a, b *holdfastv1.Machine) int{
		"machine": by((*holdfastv1.Machine).GetMachineId),
		"state": func(a, b *holdfastv1.Machine) int {
			return cmp.Or(cmp.Compare(len(b.GetStatus().GetBanners()), len(a.GetStatus().GetBanners())), cmp.Compare(a.GetStatus().GetEffectiveState(), b.GetStatus().GetEffectiveState()))
		},
		"run":      by(func(m *holdfastv1.Machine) string { return m.GetStatus().GetActiveRunId() }),
		"pool":     by(func(m *holdfastv1.Machine) string { return m.GetSpec().GetPool() }),
		"location": by(func(m *holdfastv1.Machine) string { return m.GetSpec().GetLocation() }),
		"rack":     by(func(m *holdfastv1.Machine) string { return m.GetSpec().GetRack() }),
		"updated": func(a, b *holdfastv1.Machine) int {
			return b.GetUpdatedAt().AsTime().Compare(a.GetUpdatedAt().AsTime())
		},
	}
}

func (d *dashboard) machines(v *visit) error {
	q := v.r.URL.Query()
	b := machinesBody{Filter: strings.TrimSpace(q.Get("filter")), Sort: q.Get("sort"), Total: -1}
	order, sorted := orders()[strings.TrimPrefix(b.Sort, "-")]
	var err error
	if sorted {
		err = b.sorted(v, order, q.Get("from"))
	} else {
		b.Sort = ""
		err = b.byID(v, q.Get("page"))
	}
	b.columns()
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
		b.Next = link("/ui/machines", "filter", b.Filter, "page", t)
	}
	if token != "" {
		b.First = link("/ui/machines", "filter", b.Filter)
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
		b.Next = link("/ui/machines", "filter", b.Filter, "sort", b.Sort, "from", strconv.Itoa(n+rows))
	}
	if n > 0 {
		b.First = link("/ui/machines", "filter", b.Filter, "sort", b.Sort)
	}
	return nil
}

// columns words the heads of the table: each sorts by itself, and once more the other way.
func (b *machinesBody) columns() {
	for _, name := range []string{"Machine", "State", "Run", "Pool", "Location", "Rack", "Updated"} {
		key := strings.ToLower(name)
		c := column{Name: name}
		switch b.Sort {
		case key:
			c.Sorted, key = "ascending", "-"+key
		case "-" + key:
			c.Sorted = "descending"
		}
		c.Link = link("/ui/machines", "filter", b.Filter, "sort", key)
		b.Columns = append(b.Columns, c)
	}
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
