package runs

import (
	"cmp"
	"slices"

	"github.com/holdfast-metal/holdfast/fsm/internal/access"
	"github.com/holdfast-metal/holdfast/fsm/internal/core"
	"github.com/holdfast-metal/holdfast/fsm/internal/plans"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// ClusterRef returns the cluster of a step: its own, else the parameter cluster_ref, else the
// machine's, else "default".
func ClusterRef(m *holdfastv1.Machine, own string, params map[string]string) string {
	return cmp.Or(own, params["cluster_ref"], m.GetSpec().GetTargetClusterRef(), "default")
}

// PlanID returns the plan of a start: the one that it names, else that of its type.
func PlanID(c *internalv1.StartRun) string {
	if c.GetPlanId() != "" {
		return c.GetPlanId()
	}
	canonical, _ := plans.CanonicalType(c.GetType())
	return plans.DefaultID(canonical)
}

// Clusters returns the clusters that a run of a plan would use, except for the machine's target
// cluster. A step that drains without naming one uses the default cluster only if that is
// registered: otherwise it runs a script on the host. The plan may be nil.
func Clusters(s *core.State, m *holdfastv1.Machine, plan *holdfastv1.Plan, params map[string]string) []string {
	var refs []string
	if ref := params["cluster_ref"]; ref != "" { // even if no step reads it
		refs = append(refs, ref)
	}
	for _, step := range plan.GetSteps() {
		own := ""
		switch k := step.GetKind().(type) {
		case *holdfastv1.Step_Join:
			own = k.Join.GetClusterRef()
		case *holdfastv1.Step_Verify:
			own = k.Verify.GetClusterRef()
		default:
			if !plans.SetsAside(step) || !s.Secrets.Has(access.ClusterSecret+ClusterRef(m, "", params)) {
				continue
			}
		}
		refs = append(refs, ClusterRef(m, own, params))
	}
	slices.Sort(refs)
	return slices.DeleteFunc(slices.Compact(refs), func(ref string) bool {
		return ref == m.GetSpec().GetTargetClusterRef()
	})
}
