package display

import (
	"cmp"
	"net/url"
	"slices"
	"strings"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// MachinePath returns the path of the page of a machine.
func MachinePath(id string) string { return "/ui/machines/" + url.PathEscape(id) }

// RunPath returns the path of the page of a run.
func RunPath(id string) string { return "/ui/runs/" + url.PathEscape(id) }

// WavePath returns the path of the page of a wave.
func WavePath(id string) string { return "/ui/waves/" + url.PathEscape(id) }

// PlanPath returns the path of the page of a plan.
func PlanPath(id string) string { return (&url.URL{Path: "/ui/plans/" + id}).EscapedPath() }

// EndSessionPath returns the path of the page that asks whether to end a session.
func EndSessionPath(id string) string { return "/ui/sessions/" + url.PathEscape(id) + "/end" }

// Link returns a URL with a query. Empty values are omitted.
func Link(path string, pairs ...string) string {
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

// retryLink returns a link to the page that starts a run with the same plan and parameters.
func retryLink(r *holdfastv1.Run) string {
	var lines []string
	for k, v := range r.GetParams() {
		lines = append(lines, k+"="+v)
	}
	slices.Sort(lines)
	return Link(MachinePath(r.GetMachineId())+"/run", "plan", r.GetPlanId(), "params", strings.Join(lines, "\n"))
}

// Natural compares names with numbers at the end: r2 comes before r10, and an empty name last.
func Natural(a, b string) int {
	if (a == "") != (b == "") {
		return cmp.Compare(len(b), len(a))
	}
	headA, headB := strings.TrimRight(a, "0123456789"), strings.TrimRight(b, "0123456789")
	if headA == headB && len(a) != len(b) {
		return cmp.Compare(len(a), len(b))
	}
	return cmp.Compare(a, b)
}
