package ui_test

import (
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// links returns the pages that the navigation of a page offers.
func links(w *httptest.ResponseRecorder) (all []string) {
	_, nav, _ := strings.Cut(w.Body.String(), "<nav")
	nav, _, _ = strings.Cut(nav, "</nav>")
	for _, m := range regexp.MustCompile(`href="/ui/([a-z]*)"`).FindAllStringSubmatch(nav, -1) {
		all = append(all, m[1])
	}
	return all
}

// TestNavigation checks that users are offered the pages that they may open, also on pages of
// errors, and that each offered page opens.
func TestNavigation(t *testing.T) {
	l := lab(t)
	forAdmins := map[string]bool{"webhooks": true, "tokens": true, "secrets": true, "audit": true}
	admin := links(get(l, "admin", "/ui/"))
	var viewer []string
	for _, page := range admin {
		w := get(l, "admin", "/ui/"+page)
		has(t, w, 200, []string{`href="/ui/` + page + `" aria-current="page"`})
		code := 403
		if !forAdmins[page] {
			viewer, code = append(viewer, page), 200
		}
		has(t, get(l, "viewer", "/ui/"+page), code, nil)
	}
	if len(admin) < 14 || len(admin)-len(viewer) != len(forAdmins) {
		t.Errorf("got pages %q for admins, and %q for viewers", admin, viewer)
	}
	for path, who := range map[string]string{
		"/ui/": "viewer", "/ui/audit": "viewer", "/ui/nothing": "viewer", "/ui/machines/none": "viewer",
	} {
		if diff := cmp.Diff(viewer, links(get(l, who, path))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", path, diff)
		}
	}
	if diff := cmp.Diff(admin, links(get(l, "admin", "/ui/nothing"))); diff != "" {
		t.Errorf("an unknown page for an admin (-want +got):\n%s", diff)
	}
	if got := links(get(l, "", "/ui/machines")); got != nil {
		t.Errorf("the form to sign in: got %q, want no navigation", got)
	}
}

// TestFaults checks that pages of errors lead on.
func TestFaults(t *testing.T) {
	l := lab(t)
	has(t, get(l, "viewer", "/ui/tokens"), 403, []string{"Not allowed", "Sign out", `href="/ui/signin?next=`,
		"token &#34;viewer&#34; (viewer) may not list tokens: this needs the role admin"}, "Not done.", "GET /ui")
	has(t, get(l, "viewer", "/ui/nothing"), 404, []string{"Not found", "the dashboard has no page /ui/nothing", "Sign out",
		`href="/ui/">Overview`}, "Not Found", "Not done.")
	has(t, get(l, "admin", "/ui/machines/none"), 404, []string{"Not found", `href="/ui/machines">Machines`}, "signin?",
		"Not done.")
	has(t, get(l, "admin", "/ui/machines?filter=nonsense"), 400, []string{`role="alert"`}, "Not done.")
	has(t, post(l, "admin", "/ui/machines/m-2/phase", map[string][]string{"phase": {"RETIRED"}}), 400,
		[]string{"Not done."})
}

// TestAlertsPage checks the order, the details and the limits of the page of alerts.
func TestAlertsPage(t *testing.T) {
	l := lab(t)
	l.SetStatus(&holdfastv1.ClusterStatus{Leader: "p1", AnsweredBy: "p1", FailureTolerance: 1,
		Peers: []*holdfastv1.Peer{{Id: "p1", Suffrage: "voter", Alive: true, Warning: evil + " is full"}}})
	w := get(l, "viewer", "/ui/alerts")
	has(t, w, 200, []string{"3 of 16 alerts firing", "p1: &lt;script&gt;", "not visible to you",
		"<code>holdfast operator snapshot save FILE</code>", "alerts.md#holdfastbackupmissing", "HoldfastCommitsSlow",
		`data-label="Severity">critical`}, evil)
	page := w.Body.String()
	firing, ok := strings.Index(page, "e-HoldfastDiskAlmostFull"), strings.Index(page, "e-HoldfastNoLeader")
	if firing < 0 || firing > ok {
		t.Error("got a rule that is ok before a firing alert")
	}
	has(t, get(l, "admin", "/ui/alerts"), 200, nil, "not visible to you")
}
