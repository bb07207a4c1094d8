package fleet

import (
	"strings"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/internal/filter"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/auth"
)

// machineQuery returns a query for the machines that can match a filter and a caller's
// scope. So a page costs as much as its machines, not as the fleet.
func machineQuery(f *filter.Filter, id *holdfastv1.Identity) fsm.Query {
	q := fsm.Query{Texts: f.Texts(isStoredField)}
	var all []fsm.Facets
	if t, ok := f.Terms(machineTerm); ok {
		all = append(all, machineFacets(t))
	}
	if own := id.GetMachineId(); own != "" {
		q.Texts = append(q.Texts, own)
	} else if auth.Scoped(id) {
		pools := fsm.Facets{}
		for _, p := range id.GetPools() {
			pools.Any = append(pools.Any, fsm.Facets{Path: "spec.pool", Value: p})
		}
		all = append(all, pools)
	}
	if len(all) > 0 {
		q.Facets = &fsm.Facets{All: all}
	}
	return q
}

// machineTerm reports whether the state can look up machines by a term.
func machineTerm(path, value string) bool {
	_, ok := stateFacet(path, value)
	return ok || fsm.MachineFacet(path, value)
}

// machineFacets returns the facets of machines that match the terms of a filter.
func machineFacets(t filter.Terms) fsm.Facets {
	if s, ok := stateFacet(t.Path, t.Value); ok {
		return s
	}
	s := fsm.Facets{Path: t.Path, Value: t.Value}
	for _, part := range t.All {
		s.All = append(s.All, machineFacets(part))
	}
	for _, part := range t.Any {
		s.Any = append(s.Any, machineFacets(part))
	}
	return s
}

// stateFacet returns stored facets that every machine with a value of a field has, if that field
// is computed on read.
func stateFacet(path, value string) (fsm.Facets, bool) {
	facet := func(path, value string) (fsm.Facets, bool) { return fsm.Facets{Path: path, Value: value}, true }
	switch path + "=" + value {
	case "status.effective_state=RMA", "status.effective_state=RETIRED", "status.effective_state=MAINTENANCE",
		"status.effective_state=FACTORY_READY":
		return facet("status.phase", value)
	case "status.effective_state=IN_SERVICE":
		return facet("status.conditions.InCustomerCluster", "true")
	case "status.power=OFF":
		return facet("status.conditions.PoweredOn", "false")
	}
	return fsm.Facets{}, false
}

// isStoredField reports whether a field is stored in a machine's record as it is read.
func isStoredField(path string) bool {
	return path == "machine_id" || path == "labels" ||
		strings.HasPrefix(path, "labels.") || strings.HasPrefix(path, "spec.") ||
		path == "status.phase" || path == "status.active_run_id"
}
