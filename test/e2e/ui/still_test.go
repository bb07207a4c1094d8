package ui

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// shifts measures the layout shift of a page, as browsers do. People tolerate 0.1.
const shifts = `window.moved = 0; window.movers = []; new PerformanceObserver((list) => {
	for (const e of list.getEntries()) if (!e.hadRecentInput) {
		window.moved += e.value;
		window.movers.push(...e.sources.map((s) => (s.node?.outerHTML || s.node?.nodeName || "?").slice(0, 100)));
	}
}).observe({type: "layout-shift", buffered: true})`

// testStill checks that open pages do not move while they are updated, from the first drawing on.
func testStill(t *testing.T, b *browser, l *lab, home *peer) {
	for _, tt := range []struct {
		path  string
		most  float64
		act   func()
		after string
	}{
		{"/ui/machines/m-09", 0.05,
			func() {
				l.holdfast("machine", "set-phase", "m-09", "MAINTENANCE", "--comment",
					"still")
			}, `document.body.innerText.includes("still")`},
		{"/ui/machines", 0.02, func() { l.holdfast("machine", "set-phase", "m-10", "MAINTENANCE", "--comment", "still") },
			`document.querySelector("#m-m-10 .s-maintenance")`},
		{"/ui/", 0.1, func() { l.holdfast("run", "start", "m-11", "--type", "REBOOT", "--wait", "-o", "name") },
			`document.querySelector("[aria-labelledby=h-recent]").textContent.includes("m-11")`},
		{"/ui/charts", 0.02, func() {}, `window.began + 12000 < performance.now()`},
	} {
		for _, width := range []int64{1440, 360} {
			b.size(width, 900, "light")
			b.do(chromedp.Navigate(home.url() + tt.path))
			b.do(chromedp.Evaluate(shifts+`; window.began = performance.now(); true`, nil))
			b.sees("the stream", `document.querySelector("#live.on")`)
			if width == 1440 {
				tt.act()
			}
			b.sees("the change", tt.after)
			moved := eval[float64](b, "window.moved")
			t.Logf("%s at %d px: shift %.4f", tt.path, width, moved)
			if moved > tt.most {
				t.Errorf("%s at %d px: got a shift of %.3f, want at most %.2f:\n%s", tt.path, width, moved, tt.most,
					strings.Join(eval[[]string](b, "window.movers"), "\n"))
			}
		}
	}
	b.calm()
}

// testMany opens a map of 10,000 machines, which must appear at once, be small, and fit every
// window.
func testMany(t *testing.T, b *browser, l *lab, home *peer) {
	const machines = 10_000
	var all strings.Builder
	for i := range machines - 24 {
		fmt.Fprintf(&all, "---\nmachine_id: x-%05d\nspec: {rack: q%d, location: %s, pool: gpu}\n", i, i/40+1,
			[]string{"fra2", "ams1"}[i*2/machines])
	}
	l.write("many.yaml", all.String())
	begin := time.Now()
	l.holdfast("machine", "register", "-f", "many.yaml", "-o", "name")
	t.Logf("registered %d machines in %s", machines-24, time.Since(begin).Round(time.Second))
	for _, size := range [][2]int64{{1440, 900}, {360, 740}, {3840, 2160}} {
		for _, scheme := range []string{"light", "dark"} {
			b.size(size[0], size[1], scheme)
			b.do(chromedp.Navigate(home.url() + "/ui/"))
			b.sees("all machines", `document.querySelector(".tile b").textContent.replaceAll(/\D/g, "") === "10000"`)
			b.sees("the stream", `document.querySelector("#live.on")`)
			const nav = `performance.getEntriesByType("navigation")[0]`
			t.Logf("10,000 machines at %d px: %.0f KB, visible after %.0f ms, complete after %.0f ms", size[0],
				eval[float64](b, nav+".decodedBodySize / 1024"), eval[float64](b, nav+".responseEnd"), eval[float64](b, nav+
					".loadEventEnd"))
			if kb := eval[float64](b, nav+".decodedBodySize / 1024"); kb > 500 {
				t.Errorf("page: got %.0f KB, want at most 500", kb)
			}
			if over := eval[int](b, "document.documentElement.scrollWidth - document.documentElement.clientWidth"); over > 0 {
				t.Errorf("10,000 machines at %d px: got %d px more than the window", size[0], over)
			}
			b.picture(fmt.Sprintf("many-%d-%s", size[0], scheme))
		}
	}
	b.calm()
}
