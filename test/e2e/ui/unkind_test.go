package ui

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// TestUnkind opens every page with data that is hard to show: an empty fleet, failed and hung
// machines, long errors, many labels, and a cluster without a leader. It checks that no page
// scrolls sideways, that texts fit (checkFit), and that axe-core finds nothing.
func TestUnkind(t *testing.T) {
	if os.Getenv("E2E_UI") == "" {
		t.Skip("needs Chromium: run make e2e-ui, or set E2E_UI=1")
	}
	long := strings.Repeat("slot 3 answers nothing since the last firmware update; ", 4)[:200]
	config := filepath.Join(t.TempDir(), "fleet.yaml")
	faults := fmt.Sprintf(`latency: 20ms
machines:
  m-03: {fail: 1}
  m-04: {hang: ["*"]}
  m-06: {broken: {DiskFailed: %q}}
`, long) + failing(6)
	if err := os.WriteFile(config, []byte(faults), 0o600); err != nil {
		t.Fatal(err)
	}
	l := newLab(t, "--config", config)
	const name = "a-user-with-a-name-as-long-as-those-of-many-directories"
	admin := l.holdfast("token", "create", "--name", name, "--role", "admin")
	b := newBrowser(t)
	b.size(1400, 900, "light")
	home := l.peers[0]
	b.do(chromedp.Navigate(home.url()+"/ui/signin"), chromedp.WaitVisible("#token"),
		chromedp.SendKeys("#token", admin+"\n"))
	b.sees("the overview", `document.querySelector("#live.on")`)
	listed := map[string]string{}
	const links = `[...document.querySelectorAll("#pages a[href]")].map((a) => a.getAttribute("href"))`
	for _, path := range eval[[]string](b, links) {
		listed[strings.ReplaceAll(strings.Trim(path, "/"), "/", "-")] = path
	}
	if len(listed) < 15 {
		t.Fatalf("pages of the navigation: got %d, want 15 or more: %v", len(listed), listed)
	}
	axe := axeSource(t)
	checkAll := func(t *testing.T, state, live string, pages map[string]string) {
		b.T, l.T = t, t
		for _, width := range []int64{1400, 390} {
			for _, scheme := range []string{"light", "dark"} {
				b.size(width, 900, scheme)
				for name, path := range pages {
					b.do(chromedp.Navigate(home.url()+path), chromedp.WaitVisible("#main"))
					b.sees(name+" with its status line", live)
					title := fmt.Sprintf("unkind-%s-%s-%d-%s", state, name, width, scheme)
					checkPage(t, b, title)
					checkFit(t, b, title)
					if axe != "" {
						for _, v := range b.axe(axe) {
							t.Errorf("%s: %s", title, v)
						}
					}
					b.picture(title)
				}
			}
		}
		b.calm()
	}
	const on = `document.querySelector("#live.on")`
	t.Run("empty fleet", func(t *testing.T) { checkAll(t, "empty", on, listed) })

	b.T, l.T = t, t
	failed, wave := seedUnkind(l, long)
	pages := map[string]string{
		"labels": "/ui/machines/m-02", "failed": "/ui/machines/m-03", "hung": "/ui/machines/m-04",
		"comment": "/ui/machines/m-05", "broken": "/ui/machines/m-06", "run": "/ui/runs/" + failed,
		"wave":   "/ui/waves/" + wave,
		"filter": "/ui/machines?filter=" + strings.Repeat("nonsense", 25), "none": "/ui/machines/none",
		"bulk": "/ui/bulk/phase?all=1&phase=RETIRED", "label": "/ui/bulk/labels/remove?all=1&key=label-07",
		"plan": "/ui/bulk/runs/plan?all=1&plan=plan%2Frepave-join", "picked": "/ui/machines?select=page&sort=state",
		"off": "/ui/machines/m-11", "held": "/ui/plans/site/reboot-once", "lost": "/ui/nope",
		"check": "/ui/check?from=site%2Freboot-once",
		"ask":   "/ui/machines/m-08/run?plan=plan%2Frepave-join", "console": "/ui/machines/m-07/console",
	}
	for name, path := range listed {
		pages[name] = path
	}
	t.Run("failed and hung", func(t *testing.T) { checkAll(t, "failed", on, pages) })

	b.T, l.T = t, t
	l.kill(l.peers[1])
	l.kill(l.peers[2])
	b.size(1400, 900, "light")
	b.do(chromedp.Navigate(home.url() + "/ui/"))
	b.sees("no leader", `document.querySelector("#live.stale")`)
	t.Run("no leader", func(t *testing.T) { checkAll(t, "headless", `document.querySelector("#live")`, pages) })
}
