package ui

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// TestDashboard uses the dashboard in a real browser: login, every page in every size, a run from
// start to end, the limits of a viewer, and the death of the peer that serves the page.
func TestDashboard(t *testing.T) {
	if os.Getenv("E2E_UI") == "" {
		t.Skip("needs Chromium: run make e2e-ui, or set E2E_UI=1")
	}
	l := newLab(t)
	l.holdfast("pool", "create", "gpu")
	var machines strings.Builder
	for i := range 24 {
		fmt.Fprintf(&machines, "---\nmachine_id: m-%02d\nspec: {provider: fake, rack: r%d, location: fra1, pool: gpu}\n", i+
			1, i/8+1)
	}
	l.write("machines.yaml", machines.String())
	l.holdfast("machine", "register", "-f", "machines.yaml")
	operator := l.holdfast("token", "create", "--name", "olga", "--role", "operator")
	admin := l.holdfast("token", "create", "--name", "anna", "--role", "admin")
	viewer := l.holdfast("token", "create", "--name", "vera", "--role", "viewer")
	first := strings.Fields(l.holdfast("run", "start", "m-24", "--type", "REBOOT", "--wait", "-o", "name"))[0]

	b := newBrowser(t)
	b.size(1280, 900, "light")
	home := l.peers[0]
	signIn := func(p *peer, token string) {
		b.Helper()
		b.do(chromedp.Navigate(p.url()+"/ui/signin"), chromedp.WaitVisible("#token"), chromedp.SendKeys("#token", token+"\n"))
		b.sees("the overview", `document.querySelector("#live.on")`)
	}

	// A failed scene does not end the others.
	scene := func(name string, f func(t *testing.T)) {
		t.Run(name, func(t *testing.T) {
			outer := b.T
			b.T, l.T = t, t
			defer func() { b.T, l.T = outer, outer }()
			f(t)
		})
	}
	scene("sign in", func(t *testing.T) {
		b.do(chromedp.Navigate(home.url() + "/ui/machines"))
		b.sees("the form", `document.querySelector("#token") && !document.querySelector("nav")`)
		b.picture("signin-1280-light")
		b.do(chromedp.SendKeys("#token", "not-a-token\n"))
		b.sees("the reason of the refusal", `document.querySelector(".error")?.textContent.includes("unknown token")`)
		b.do(chromedp.SendKeys("#token", operator+"\n"))
		b.sees("the page asked for first",
			`location.pathname === "/ui/machines" && document.body.innerText.includes("token:olga")`)
		if cookie := eval[string](b, "document.cookie"); cookie != "" {
			t.Errorf("cookie in a script: got %q, want none", cookie)
		}
		b.calm()
	})

	scene("start and watch a run", func(t *testing.T) {
		b.do(chromedp.Navigate(home.url()+"/ui/machines/m-01"), chromedp.Click(`//a[text()="Start a run"]`,
			chromedp.BySearch), chromedp.WaitVisible("#plan"),
			chromedp.SetValue("#plan", "plan/repave-join"), chromedp.Click(".row button"), chromedp.WaitVisible("#typed"))
		if !eval[bool](b, `document.querySelector("form.grave .actions button").disabled`) {
			t.Error("button before the machine's id is typed: want it disabled")
		}
		b.picture("confirm-1280-light")
		b.do(chromedp.SendKeys("#typed", "m-01"), chromedp.Click("form.grave .actions button"))
		b.sees("the run", `location.pathname.startsWith("/ui/runs/run-")`)
		b.sees("a step that runs", `document.querySelector("tr.current .s-running")`)
		b.do(chromedp.Evaluate(`window.kept = true`, nil)) // lost if the page is reloaded
		b.sees("its log", `document.querySelector(".log").textContent.includes("set-netboot")`)
		b.picture("run-live-1280-light")
		b.sees("the end", `document.querySelector("h1 .s-succeeded") && document.querySelectorAll("tr .s-succeeded").length >= 5`)
		b.sees("the end of its log", `document.querySelector(".log").textContent.includes("verify-in-cluster succeeded")`)
		if !eval[bool](b, "window.kept === true") {
			t.Error("got a reload of the page, want a live update")
		}
		b.calm()
	})

	scene("update of another window", func(t *testing.T) {
		b.do(chromedp.Navigate(home.url() + "/ui/machines/m-02"))
		b.sees("the stream", `document.querySelector("#live.on")`)
		b.do(chromedp.Evaluate(`window.kept = true`, nil))
		l.holdfast("machine", "set-phase", "m-02", "MAINTENANCE", "--comment", "fan 3 is loud")
		b.sees("its phase", `document.querySelector("h1 .s-maintenance") && document.body.innerText.includes("fan 3 is loud") && window.kept`)
		b.calm()
	})

	scene("limits of a viewer", func(t *testing.T) {
		signIn(home, viewer)
		b.do(chromedp.Navigate(home.url() + "/ui/machines/m-03"))
		b.sees("the page", `document.querySelector("h1")?.textContent.includes("m-03")`)
		if eval[bool](b, `document.querySelector("main form, main .button:not([href$='/console'])") !== null`) {
			t.Error("page of a viewer: got actions, want none")
		}
		b.do(chromedp.Navigate(home.url() + "/ui/machines/m-03/phase?phase=RETIRED"))
		b.sees("the refusal", `document.querySelector(".error")?.textContent.includes("(viewer) may not ")`)
		b.picture("denied-1280-light")
		b.calm()
	})

	signIn(home, admin)
	scene("columns", func(t *testing.T) { testColumns(t, b, home) })
	scene("bulk", func(t *testing.T) { testBulk(t, b, home) })
	scene("palette", func(t *testing.T) { testPalette(t, b, home) })
	scene("plans", func(t *testing.T) { testPlans(t, b, home) })
	scene("console", func(t *testing.T) { testConsole(t, b, l, home) })
	scene("cluster", func(t *testing.T) { testCluster(t, b, home) })
	scene("keys", func(t *testing.T) { testKeys(t, b, l, home, pages(first)) })
	scene("stable layout", func(t *testing.T) { testStill(t, b, l, home) })
	b.size(1280, 900, "light")
	scene("every page in every size", func(t *testing.T) {
		axe := axeSource(t)
		for _, size := range [][2]int64{{360, 740}, {1280, 900}, {1440, 900}, {3840, 2160}} {
			for _, scheme := range []string{"light", "dark"} {
				b.size(size[0], size[1], scheme)
				for name, path := range pages(first) {
					b.do(chromedp.Navigate(home.url()+path), chromedp.WaitVisible("#main"))
					b.sees(name+" is live", `document.querySelector("#live.on")`)
					checkPage(t, b, fmt.Sprintf("%s at %d px, %s", name, size[0], scheme))
					checkFit(t, b, fmt.Sprintf("%s at %d px, %s", name, size[0], scheme))
					if axe != "" && size[0] < 1400 { // wider ones have the elements and colors of 1280
						for _, v := range b.axe(axe) {
							t.Errorf("%s at %d px, %s: %s", name, size[0], scheme, v)
						}
					}
					b.picture(fmt.Sprintf("%s-%d-%s", name, size[0], scheme))
				}
			}
		}
		b.calm()
	})

	b.size(1280, 900, "light")
	scene("restart of the serving peer", func(t *testing.T) {
		p := l.leader()
		signIn(p, admin)
		b.do(chromedp.Navigate(p.url() + "/ui/machines/m-04"))
		b.sees("the stream", `document.querySelector("#live.on")`)
		b.do(chromedp.Evaluate(`window.kept = true`, nil))
		l.kill(p)
		b.sees("the stale mark", `document.querySelector("#live.stale")?.textContent.includes("Stale since")`)
		if n := eval[int](b, `document.querySelectorAll("#live a").length`); n != 2 {
			t.Errorf("links to other peers: got %d, want 2", n)
		}
		b.picture("stale-1280-light")
		l.until("another leader", func() bool { return l.ready(l.other(p)) })
		l.holdfast("machine", "set-phase", "m-04", "MAINTENANCE", "--comment", "meanwhile")
		l.run(p, l.join())
		b.sees("the live page with the missed change",
			`document.querySelector("#live.on") && document.body.innerText.includes("meanwhile") && window.kept`)
		// The session is valid on any peer.
		b.do(chromedp.Navigate(l.other(p).url() + "/ui/machines/m-04"))
		b.sees("the same page from another peer", `document.querySelector("h1 .s-maintenance")`)
	})

	b.size(1280, 900, "light")
	signIn(home, admin)
	scene("ten thousand machines", func(t *testing.T) { testMany(t, b, l, home) })

	b.size(1280, 900, "light")
	scene("sign out", func(t *testing.T) {
		b.do(chromedp.Click(".who button"))
		b.sees("the form", `document.querySelector("#token")`)
		b.do(chromedp.Navigate(l.other(nil).url() + "/ui/"))
		b.sees("the form again", `document.querySelector("#token")`)
	})
}

// other returns another peer.
func (l *lab) other(than *peer) *peer {
	for _, p := range l.peers {
		if p != than {
			return p
		}
	}
	return nil
}

func pages(run string) map[string]string {
	return map[string]string{
		"overview": "/ui/", "machines": "/ui/machines", "machine": "/ui/machines/m-01", "runs": "/ui/runs",
		"run": "/ui/runs/" + run, "plans": "/ui/plans",
		"plan": "/ui/plans/plan/repave-join", "pools": "/ui/pools", "services": "/ui/services", "audit": "/ui/audit",
		"sessions": "/ui/sessions",
		"cluster":  "/ui/cluster", "charts": "/ui/charts", "charts-14d": "/ui/charts?range=14d",
		"filter": "/ui/machines?filter=nonsense", "ask": "/ui/machines/m-05/run?plan=plan%2Frepave-join",
		"phase":   "/ui/machines/m-05/phase?phase=RETIRED",
		"console": "/ui/machines/m-07/console", "compare": "/ui/compare?a=plan%2Freboot&b=plan%2Frepave-join",
		"check": "/ui/check?from=plan%2Freboot",
		"probe": "/ui/probe/plan/reboot", "drill": "/ui/drill",
		"picked": "/ui/machines?select=page", "bulk": "/ui/bulk/runs/power-off?m=m-05&m=m-06",
		"columns": "/ui/machines?columns=serial,provider,address,keepalive",
	}
}

// checkPage checks that a page fits the window, that clickable elements have names and fields have
// labels, and that there is one heading, one main part and a language.
func checkPage(t *testing.T, b *browser, name string) {
	t.Helper()
	if over := eval[int](b, "document.documentElement.scrollWidth - document.documentElement.clientWidth"); over > 0 {
		t.Errorf("%s: got %d px more than the window", name, over)
	}
	wrong := eval[[]string](b, `(() => {
		const bad = [];
		const named = (el) => (el.textContent.trim() || el.getAttribute("aria-label") || el.querySelector("title")?.textContent || "").trim();
		for (const el of document.querySelectorAll("a, button, summary")) if (!named(el)) bad.push("no name: " + el.outerHTML.slice(0, 120));
		for (const el of document.querySelectorAll("input:not([type=hidden]), select, textarea")) if (!el.labels.length) bad.push("no label: " + el.outerHTML.slice(0, 120));
		for (const el of document.querySelectorAll("svg[role=img]")) if (!el.hasAttribute("aria-label") && !el.hasAttribute("aria-labelledby")) bad.push("no label: " + el.outerHTML.slice(0, 120));
		for (const el of document.querySelectorAll("table")) if (!el.querySelector("th[scope]")) bad.push("no heads: " + el.outerHTML.slice(0, 120));
		const ids = [...document.querySelectorAll("[id]")].map((el) => el.id);
		for (const id of ids) if (ids.indexOf(id) !== ids.lastIndexOf(id)) bad.push("id twice: " + id);
		if (document.querySelectorAll("h1").length !== 1) bad.push(document.querySelectorAll("h1").length + " headings");
		if (document.querySelectorAll("main").length !== 1 || !document.documentElement.lang || !document.title) bad.push("no main part, language or title");
		return bad;
	})()`)
	for _, s := range wrong {
		t.Errorf("%s: %s", name, s)
	}
}
