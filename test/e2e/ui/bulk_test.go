package ui

import (
	"testing"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// testBulk selects machines, and moves them to maintenance.
func testBulk(t *testing.T, b *browser, home *peer) {
	b.do(chromedp.Navigate(home.url()+"/ui/machines"), chromedp.Click(`input[name=m][value=m-15]`),
		chromedp.Click(`input[name=m][value=m-16]`))
	b.picture("bulk-picked-1280-light")
	b.do(chromedp.Click(`//button[text()="Set phase"]`, chromedp.BySearch), chromedp.WaitVisible("#phase"),
		chromedp.SetValue("#phase", "MAINTENANCE"), chromedp.Click(".row button"), chromedp.WaitVisible("#comment"))
	b.picture("bulk-ask-1280-light")
	b.do(chromedp.SendKeys("#comment", "both fans"), chromedp.Click("form[method=post].ask .primary"))
	b.sees("the results", `document.querySelector(".summary")?.textContent === "2 of 2 done"`)
	b.picture("bulk-done-1280-light")
	b.do(chromedp.Click("main table a"))
	b.sees("the machine in maintenance", `document.querySelector("h1 .s-maintenance") && document.body.innerText.includes("both fans")`)
	b.calm()
}

// testPalette finds a machine and a page by keys only.
func testPalette(t *testing.T, b *browser, home *peer) {
	ctrlK := func() {
		for _, kind := range []input.KeyType{input.KeyDown, input.KeyUp} {
			b.do(input.DispatchKeyEvent(kind).WithKey("k").WithCode("KeyK").WithModifiers(input.ModifierCtrl))
		}
	}
	b.do(chromedp.Navigate(home.url() + "/ui/"))
	b.sees("the stream", `document.querySelector("#live.on")`)
	ctrlK()
	b.sees("the pages", `document.querySelectorAll("#find-list [role=option]").length >= 8`)
	b.do(chromedp.KeyEvent("m-2"))
	b.sees("the machines", `[...document.querySelectorAll("#find-list b")].map((el) => el.textContent).join(" ") === "m-20 m-21 m-22 m-23 m-24"`)
	b.do(chromedp.KeyEvent(kb.ArrowDown))
	if got := eval[string](b, `document.getElementById(document.activeElement.getAttribute("aria-activedescendant")).querySelector("b").textContent`); got != "m-21" {
		t.Errorf("after one arrow: got %q, want m-21", got)
	}
	if axe := axeSource(t); axe != "" {
		for _, v := range b.axe(axe) {
			t.Errorf("the palette: %s", v)
		}
	}
	b.picture("palette-1280-light")
	b.do(chromedp.KeyEvent(kb.Enter))
	b.sees("the machine", `location.pathname === "/ui/machines/m-21" && document.querySelector("#live.on")`)
	ctrlK()
	b.do(chromedp.KeyEvent("clus"))
	b.sees("the page first", `document.querySelector("#find-list [aria-selected=true] b")?.textContent === "Cluster"`)
	b.do(chromedp.KeyEvent(kb.Escape))
	b.sees("the same page after Escape", `!document.querySelector("#find").open && location.pathname === "/ui/machines/m-21"`)
	ctrlK()
	b.do(chromedp.KeyEvent("env=none"))
	b.sees("nothing", `document.querySelector("#find [role=status]").textContent === "Nothing matches env=none"`)
	b.calm()
}
