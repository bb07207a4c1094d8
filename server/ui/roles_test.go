package ui_test

import (
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
		"/ui/try/plan/inspect":     {"machine": {"m-2"}},
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
	has(t, get(l, "viewer", "/ui/audit"), 403, []string{"has the role viewer"})
	before := l.Dump()
	for path, form := range deeds() {
		has(t, get(l, "viewer", path), 403, []string{"has the role viewer"})
		has(t, post(l, "viewer", path, form), 403, []string{"has the role viewer"})
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
	has(t, post(l, "elsewhere", "/ui/release/plan/inspect", nil), 403, nil)
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
