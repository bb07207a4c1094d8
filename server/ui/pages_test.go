package ui_test

import (
	"net/url"
	"strings"
	"testing"
)

// TestPages: every page has its content, contains no executable input, and sets the
// security headers.
func TestPages(t *testing.T) {
	l := lab(t)
	for path, want := range map[string][]string{
		"/ui/": {"<b>4</b><span>machines</span>", "r7", "run-1", "No run has ended yet",
			"provisioning", "peers alive"},
		"/ui/machines":                  {`id="m-m-1"`, "m-2", "r10", "1165a9b6"},
		"/ui/machines?sort=rack":        {`aria-sort="ascending"`, "sort=-rack", "4 machines"},
		"/ui/machines?filter=rack%3Dr7": {"m-1"},
		"/ui/machines/m-1": {"at set-netboot, waits for the BMC", "holdfast run cancel run-1", "provisioning",
			"Conditions", "rack", "registered"},
		"/ui/machines/new":           {"Approve", "02:00:00:00:00:aa"},
		"/ui/runs":                   {"run-1", "REPAVE", "0/5", "Step duration"},
		"/ui/runs/run-1":             {"set-netboot", "repave-image", "1/", "hello ", `data-follow`, "Cancel"},
		"/ui/plans":                  {"plan/repave-join", "set-netboot"},
		"/ui/plans/plan/repave-join": {"erases the disk", "run-1"},
		"/ui/pools":                  {"elsewhere", "gpu"},
		"/ui/services":               {"There are no services yet", "/api/v1/management/discovery/register"},
		"/ui/audit":                  {"Audit"},
		"/ui/cluster":                {"Cluster", "leader"},
		"/ui/hardware":               {`id="e-m-1"`, "r10", "4 machines"},
		"/ui/alerts":                 {"HoldfastBackupMissing", "firing"},
		"/ui/machines/m-2/run":       {"plan/reboot", "choose one"},
		"/ui/machines/m-2/run?plan=plan%2Frepave-join": {"Type <b>m-2</b> to confirm", "will be lost",
			"installs the image of the machine"},
		"/ui/machines/m-2/run?plan=plan%2Finspect": {"reads only, changes nothing", "Start the run"},
		"/ui/machines/m-2/phase?phase=RETIRED":     {"cannot be undone", "Type <b>m-2</b>"},
		"/ui/machines/new/approve":                 {">Approve</button>"},
		"/ui/runs/run-1/cancel":                    {"are not rolled back", "Cancel the run"},
		"/ui/charts": {"Machines by state", "Ended runs per minute", "BMC errors per minute", "Commit latency",
			`aria-label="Machines by state, last 1 hour: now 21, 3 factory ready,`, "&lt;script", "5 min to now", "data-history"},
		"/ui/charts?range=14d": {`range=14d" aria-current="true"`, "14 d ago", "24 h to now"},
	} {
		t.Run(path, func(t *testing.T) {
			w := get(l, "admin", path)
			has(t, w, 200, append(want, `<main id="main"`, "Sign out"), evil, "style=", "<script>", "ZgotmplZ", "%!")
			h := w.Header()
			csp := h.Get("Content-Security-Policy")
			for _, s := range []string{"default-src 'none'", "script-src 'self'", "frame-ancestors 'none'"} {
				if !strings.Contains(csp, s) {
					t.Errorf("content security policy %q: got no %q", csp, s)
				}
			}
			if strings.Contains(csp, "unsafe") || h.Get("X-Content-Type-Options") != "nosniff" ||
				h.Get("Cache-Control") != "no-store" || h.Get("Referrer-Policy") == "" {
				t.Errorf("got headers %v", h)
			}
		})
	}
}

// TestErrorsAreShownInPlace: an error of a filter is shown above the filter as it was
// typed.
func TestErrorsAreShownInPlace(t *testing.T) {
	l := lab(t)
	for path, want := range map[string]string{
		"/ui/machines": "there is no field", "/ui/runs": "there is no field", "/ui/services": "there is no field",
		"/ui/audit": "there is no field",
	} {
		has(t, get(l, "admin", path+"?filter="+url.QueryEscape(`nonsense = "`+evil+`"`)), 400,
			[]string{want, `aria-invalid="true"`, "nonsense = "}, evil)
	}
	for path, code := range map[string]int{
		"/ui/machines/none": 404, "/ui/runs/none": 404, "/ui/plans/plan/none": 404, "/ui/machines/%ff": 400,
		"/ui/runs/run-1/log?offset=x": 400, "/ui/runs/none/log?as=text": 404, "/ui/nothing": 404,
	} {
		has(t, get(l, "admin", path), code, nil, evil)
	}
	has(t, get(l, "admin", "/ui/nothing"), 404, []string{"Not found", `href="/ui/machines"`}) // leads back
	has(t, get(l, "", "/ui/nothing"), 401, []string{`action="/ui/signin"`})
	for _, who := range []string{"admin", ""} {
		has(t, get(l, who, "/ui"), 302, []string{`href="/ui/"`})
	}
	has(t, get(l, "viewer", "/ui/audit"), 403, []string{`href="/ui/machines"`})
}

// TestSorted: racks are sorted numerically, in both directions, and the filter is kept.
func TestSorted(t *testing.T) {
	l := lab(t)
	for sort, want := range map[string][]string{"rack": {"m-1", "m-2"}, "-rack": {"m-2", "m-1"},
		"machine": {"m-1", "m-2"}} {
		body := get(l, "admin", "/ui/machines?sort="+sort+"&filter="+url.QueryEscape(`rack = "r*"`)).Body.String()
		if i, j := strings.Index(body, `id="m-`+want[0]), strings.Index(body, `id="m-`+want[1]); i < 0 || j < i {
			t.Errorf("sorted by %s: %s at %d, %s at %d", sort, want[0], i, want[1], j)
		}
	}
}

// TestSortedPages: a sorted list has pages, too.
func TestSortedPages(t *testing.T) {
	l := waveLab(t)
	w := get(l, "admin", "/ui/machines?sort=-machine")
	has(t, w, 200, []string{"1 to 100 of 123 machines", `id="m-x-118"`}, `id="m-m-1"`, "First page")
	has(t, get(l, "admin", nextPage(w.Body.String())), 200,
		[]string{"101 to 123 of 123 machines", `id="m-m-1"`, "First page"}, `id="m-x-118"`, "Next page")
}
