package ui_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// deeds returns all actions with valid forms.
func deeds() map[string]url.Values {
	return map[string]url.Values{
		"/ui/machines/m-2/run":     {"plan": {"plan/inspect"}},
		"/ui/machines/m-2/phase":   {"phase": {"MAINTENANCE"}},
		"/ui/machines/new/approve": {},
		"/ui/runs/run-1/cancel":    {},
		"/ui/release/plan/inspect": {},
		"/ui/check":                {"plan": {"plan_id: p"}},
		"/ui/probe/plan/inspect":   {"machine": {"m-2"}},
		"/ui/drill":                {},
	}
}

// TestViewer: viewers are offered no actions, and their requests are refused without an
// effect.
func TestViewer(t *testing.T) {
	l := lab(t)
	for _, path := range []string{"/ui/", "/ui/machines/m-1", "/ui/machines/new", "/ui/machines/m-2/console",
		"/ui/runs/run-1", "/ui/plans", "/ui/plans/plan/inspect", "/ui/cluster"} {
		has(t, get(l, "viewer", path), 200, nil, "Start a run", "Set phase", ">Cancel<", ">Approve<", ">Audit<",
			"Open the console", "Try on a machine", "/ui/check", ">Drill<", `method="post" class`)
	}
	has(t, get(l, "viewer", "/ui/audit"), 403, []string{"(viewer) may not "})
	before := l.Dump()
	for path, form := range deeds() {
		has(t, get(l, "viewer", path), 403, []string{"(viewer) may not "})
		has(t, post(l, "viewer", path, form), 403, []string{"(viewer) may not "})
		has(t, post(l, "", path, form), 401, []string{"Sign in"})
		has(t, post(l, "agent", path, form), 403, nil)
	}
	if diff := cmp.Diff(before, l.Dump()); diff != "" {
		t.Errorf("state (-before +after):\n%s", diff)
	}
	has(t, get(l, "agent", "/ui/"), 403, nil)
	has(t, get(l, "service", "/ui/machines"), 403, nil)
}

// TestScope: a user scoped to a pool sees and counts its machines only.
func TestScope(t *testing.T) {
	l := lab(t)
	has(t, get(l, "elsewhere", "/ui/"), 200, []string{"<b>1</b><span>machines</span>", "No run is active"}, "m-1", "r7")
	has(t, get(l, "admin", "/ui/"), 200, []string{"<b>4</b><span>machines</span>"})
	has(t, get(l, "elsewhere", "/ui/machines/m-1"), 404, nil)
	has(t, get(l, "elsewhere", "/ui/runs/run-1"), 404, nil)
	has(t, get(l, "elsewhere", "/ui/machines/m-1/console"), 404, nil)
	has(t, get(l, "elsewhere", "/ui/runs/run-1/log"), 404, nil)
	has(t, post(l, "elsewhere", "/ui/runs/run-1/cancel", nil), 404, nil)
	has(t, post(l, "elsewhere", "/ui/release/plan/inspect", nil), 303, nil)
	all := []string{"Machines by state", "Ended runs", "BMC errors"}
	has(t, get(l, "elsewhere", "/ui/charts"), 200, []string{"Heartbeats/s"}, all...)
	has(t, get(l, "viewer", "/ui/charts"), 200, all)
}

// TestChartsData: the charts are served as JSON to viewers, without the numbers of all pools to
// users of some.
func TestChartsData(t *testing.T) {
	l := lab(t)
	for who, want := range map[string]map[string]int{
		"viewer":    {"machines": 7, "runs": 3, "bmcs": 1, "load": 2, "commits": 2},
		"elsewhere": {"load": 2, "commits": 2},
	} {
		w := get(l, who, "/ui/charts/data?range=24h")
		var data struct {
			Range  string
			Series []struct {
				Chart  string
				Values []*float64
			}
		}
		if err := json.Unmarshal(w.Body.Bytes(), &data); err != nil || data.Range != "24h" {
			t.Errorf("%s: got range %q, %v", who, data.Range, err)
		}
		got := map[string]int{}
		for _, s := range data.Series {
			got[s.Chart]++
			if n := len(s.Values); n < 100 || s.Values[0] != nil || *s.Values[n-1] != 3 {
				t.Errorf("%s: %s has %d values, want more, the last known and 3", who, s.Chart, n)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: series by chart (-want +got):\n%s", who, diff)
		}
	}
	has(t, get(l, "agent", "/ui/charts/data"), 403, nil)
	has(t, get(l, "", "/ui/charts/data"), 401, nil)
}

// TestCrossOrigin: a form of another or an unknown origin has no effect, whatever the
// browser attaches.
func TestCrossOrigin(t *testing.T) {
	for name, from := range map[string]map[string]string{
		"another site":     {"Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example"},
		"another port":     {"Sec-Fetch-Site": "same-site", "Origin": "http://example.com:99"},
		"only an origin":   {"Origin": "https://evil.example"},
		"an opaque origin": {"Origin": "null"},
		"no header":        {},
	} {
		t.Run(name, func(t *testing.T) {
			l := lab(t)
			before := l.Dump()
			paths := deeds()
			paths["/ui/signin"], paths["/ui/signout"] = url.Values{"token": {"x"}}, url.Values{}
			for path, form := range paths {
				r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(form.Encode()))
				r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
				for k, v := range from {
					r.Header.Set(k, v)
				}
				w := do(l, "admin", r)
				has(t, w, 403, []string{"nothing was done"})
				if w.Header().Get("Set-Cookie") != "" {
					t.Errorf("%s: got a cookie", path)
				}
			}
			if diff := cmp.Diff(before, l.Dump()); diff != "" {
				t.Errorf("state (-before +after):\n%s", diff)
			}
		})
	}
	// Without TLS, browsers send only the Origin.
	l := lab(t)
	r := httptest.NewRequest(http.MethodPost, "/ui/machines/m-2/phase", strings.NewReader("phase=MAINTENANCE"))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Origin", "http://example.com")
	has(t, do(l, "admin", r), 303, nil)
}
