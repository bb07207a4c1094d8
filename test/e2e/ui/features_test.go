package ui

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// testPlans compares plans, validates a new one, and simulates one on a machine.
func testPlans(t *testing.T, b *browser, home *peer) {
	b.do(chromedp.Navigate(home.url()+"/ui/plans/plan/reboot"),
		chromedp.Click(`//a[text()="Compare"]`, chromedp.BySearch), chromedp.WaitVisible("#b"),
		chromedp.SetValue("#b", "plan/inspect"), chromedp.Click("form.ask button"))
	b.sees("the differences", `[...document.querySelectorAll(".diff del")].some((el) => el.textContent === "  reboot:") && [...document.querySelectorAll(".diff ins")].some((el) => el.textContent === "- inspect: {}")`)
	b.picture("compare-1280-light")

	b.do(chromedp.Navigate(home.url()+"/ui/check?from=plan%2Freboot"), chromedp.WaitVisible("#plan"),
		chromedp.Evaluate(`document.getElementById("plan").value += "  nonsense: 1\n"`, nil), chromedp.Click(".ask .primary"))
	b.sees("the error", `document.querySelector(".error")?.textContent.includes("nonsense")`)
	b.do(chromedp.Evaluate(`document.getElementById("plan").value = "plan_id: mine\nsteps:\n- name: again\n  reboot: {force: true}\n"`, nil), chromedp.Click(".ask .primary"))
	b.sees("the valid plan", `document.querySelector("#h-checked")?.textContent.includes("mine is valid")`)
	b.picture("check-1280-light")

	b.do(chromedp.Navigate(home.url()+"/ui/probe/plan/reboot"), chromedp.WaitVisible("#machine"),
		chromedp.SendKeys("#machine", "m-05"), chromedp.Click(".ask .primary"))
	b.sees("the simulation", `document.querySelector("#h-seen") && document.querySelectorAll("tbody tr").length > 0`)
	b.picture("probe-1280-light")
	b.calm()
}

// testConsole opens the serial console of a machine and follows it.
func testConsole(t *testing.T, b *browser, l *lab, home *peer) {
	b.do(chromedp.Navigate(home.url()+"/ui/machines/m-07"), chromedp.Click(`//a[text()="Console"]`, chromedp.BySearch))
	b.sees("the console that was never opened", `document.body.innerText.includes("was never opened")`)
	b.do(chromedp.Evaluate(`window.kept = true`, nil), chromedp.Click(`//a[text()="Open the console"]`,
		chromedp.BySearch), chromedp.WaitVisible("form[method=post].ask"), chromedp.Click("form[method=post].ask .primary"))
	b.sees("its run", `location.pathname.startsWith("/ui/runs/run-")`)
	b.do(chromedp.Navigate(home.url() + "/ui/machines/m-07/console"))
	b.sees("the open console", `document.querySelector("main p .s-running") && document.querySelector(".log[data-follow]")`)
	b.do(chromedp.Evaluate(`window.kept = true`, nil))
	l.holdfast("run", "start", "m-07", "--type", "REBOOT", "--wait", "-o", "name")
	b.sees("the output of the boot",
		`document.querySelector(".log .o-console")?.textContent.trim().length > 0 && window.kept`)
	if text := eval[string](b, `document.querySelector(".log").textContent`); strings.ContainsRune(text, '\x1b') {
		t.Errorf("console: got escape sequences: %q", text)
	}
	b.picture("console-1280-light")
	b.calm()
}

// testCluster watches the charts, and transfers the leadership.
func testCluster(t *testing.T, b *browser, home *peer) {
	b.do(chromedp.Navigate(home.url()+"/ui/charts"), chromedp.WaitVisible("[data-history]"))
	b.sees("the stream", `document.querySelector("#live.on")`)
	b.do(chromedp.Evaluate(`window.kept = true; window.labels = new Set()`, nil))
	b.sees("two states of the charts", `window.labels.add(document.querySelector("#h-commits").parentNode.nextElementSibling.outerHTML + document.querySelector("#now-commands").textContent).size > 1 && window.kept`)
	b.do(chromedp.Navigate(home.url()+"/ui/drill"), chromedp.WaitVisible("form.ask .primary"))
	b.picture("drill-1280-light")
	b.do(chromedp.Click("form.ask .primary"))
	b.sees("the result of the drill", `document.querySelector("#h-done")?.textContent.includes("handed over to")`)
	b.picture("drilled-1280-light")
	if n := eval[int](b,
		`parseInt(document.querySelector("#h-done ~ p:not(.summary)").textContent.replaceAll(" ", ""))`); n < 50 {
		t.Errorf("drill: got %d acknowledged writes, want at least 50", n)
	}
	b.do(chromedp.Navigate(home.url() + "/ui/charts"))
	b.sees("the next leader in the charts",
		`document.querySelector(".p-mark title")?.textContent.includes("leads from here on")`)
	b.picture("charts-handed-over-1280-light")
	b.calm()
}

// testColumns selects columns, which must stay selected when the list is sorted and searched.
func testColumns(t *testing.T, b *browser, home *peer) {
	b.do(chromedp.Navigate(home.url()+"/ui/machines"), chromedp.Click("#columns summary"),
		chromedp.Click("input[value=provider]"), chromedp.Click("input[value=location]"))
	b.picture("columns-1280-light")
	b.do(chromedp.Click(".checks button"))
	const heads = `[...document.querySelectorAll("thead th:not(.pick)")].map((el) => el.textContent).join(" ")`
	b.sees("the columns", heads+` === "Machine State Run Power Pool Rack Provider Updated Why"`)
	b.do(chromedp.Click(`//th/a[text()="Rack"]`, chromedp.BySearch))
	b.sees("sorted, with the same columns", heads+` === "Machine State Run Power Pool Rack Provider Updated Why" && document.querySelector("th[aria-sort=ascending]").textContent === "Rack"`)
	b.do(chromedp.SendKeys("#filter", "rack = \"r3\"\n"))
	b.sees("searched, with the same columns", heads+` === "Machine State Run Power Pool Rack Provider Updated Why" && document.querySelectorAll("tbody tr").length === 8`)
	b.calm()
}
