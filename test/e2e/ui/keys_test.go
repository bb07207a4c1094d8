package ui

import (
	"encoding/json"
	"testing"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// stop is an element that the tab key reaches.
type stop struct {
	What    string
	Index   int  // among the reachable elements, in the order of the page; -1: not reachable
	Outline bool // the focus is visible
	Inside  bool // inside the window and not covered
}

// reachable lists the elements that the tab key must reach, in the order of the page. The browser
// decides whether they are visible.
const reachable = `[...document.querySelectorAll("a[href], button, input, select, textarea, summary, [tabindex='0']")].filter((el) =>
	el.tabIndex >= 0 && !el.disabled && el.type !== "hidden" && el.checkVisibility({ visibilityProperty: true }))`

// tabs presses the tab key through the whole page.
func (b *browser) tabs() []stop {
	b.Helper()
	b.do(chromedp.Evaluate(`document.activeElement.blur(); getSelection().removeAllRanges(); scrollTo(0, 0); document.body.focus()`, nil))
	n := eval[int](b, reachable+".length")
	var all []stop
	for range n {
		b.do(chromedp.KeyEvent(kb.Tab))
		raw := eval[string](b, `(() => {
			const el = document.activeElement, css = getComputedStyle(el), box = el.getBoundingClientRect();
			const under = el.closest(".top, .skip") ? 0 : document.querySelector(".top").getBoundingClientRect().bottom;
			const left = Math.max(box.left, 0), right = Math.min(box.right, innerWidth), top = Math.max(box.top, under), bottom = Math.min(box.bottom, innerHeight);
			const at = document.elementFromPoint((left + right) / 2, top + Math.min(bottom - top, 20) / 2);
			return JSON.stringify({
				What: el.outerHTML.slice(0, 120) + " at " + [box.left, box.top, box.right, box.bottom].map(Math.round) + ", there is " + at?.outerHTML.slice(0, 60), Index: `+reachable+`.indexOf(el),
				Outline: css.outlineStyle !== "none" && parseFloat(css.outlineWidth) >= 2,
				Inside: right - left > 4 && bottom - top > 4 && !!at && (el.contains(at) || at.contains(el) || el.closest("svg")?.contains(at)),
			});
		})()`)
		var s stop
		if err := json.Unmarshal([]byte(raw), &s); err != nil {
			b.Fatal(err)
		}
		all = append(all, s)
	}
	return all
}

// keysReach checks that the tab key reaches each element once, in the order of the page, with a
// visible focus inside the window.
func keysReach(t *testing.T, b *browser, name string) {
	t.Helper()
	stops := b.tabs()
	for i, s := range stops {
		if s.Index != i {
			t.Errorf("%s: got element %d of the page after %d tabs: %s", name, s.Index, i-1, s.What)
			return
		}
		if !s.Outline {
			t.Errorf("%s: got an invisible focus: %s", name, s.What)
		}
		if !s.Inside {
			t.Errorf("%s: got a focus outside the window: %s", name, s.What)
		}
	}
}

// tabTo presses the tab key until the focused element el satisfies an expression.
func (b *browser) tabTo(name, expression string) {
	b.Helper()
	for range 120 {
		b.do(chromedp.KeyEvent(kb.Tab))
		if eval[bool](b, `((el) => !!(`+expression+`))(document.activeElement)`) {
			return
		}
	}
	b.picture("failed")
	b.Fatalf("tab to %s: not reached", name)
}

// testKeys uses the dashboard without a mouse.
func testKeys(t *testing.T, b *browser, l *lab, home *peer, pages map[string]string) {
	open := func(path string) {
		t.Helper()
		b.do(chromedp.Navigate(home.url()+path), chromedp.WaitVisible("#main"))
		b.sees("the live page", `document.querySelector("#live.on")`)
	}
	for _, width := range []int64{1280, 360} {
		b.size(width, 800, "light")
		for name, path := range pages {
			open(path)
			keysReach(t, b, name)
		}
	}
	b.size(1280, 900, "light")

	open("/ui/machines")
	b.do(chromedp.KeyEvent(kb.Tab))
	if !eval[bool](b, `document.activeElement.matches(".skip") && document.activeElement.getBoundingClientRect().left >= 0`) {
		t.Error("first tab: want the visible link past the navigation")
	}
	b.picture("skip-1280-light")
	b.do(chromedp.KeyEvent(kb.Enter))
	b.sees("the focus in the content", `document.activeElement.id === "main"`)
	b.do(chromedp.KeyEvent(kb.Tab))
	if !eval[bool](b, `document.getElementById("main").contains(document.activeElement)`) {
		t.Error("tab after the link past the navigation: got the navigation")
	}
	b.do(chromedp.Evaluate(`document.activeElement.blur()`, nil),
		input.DispatchKeyEvent(input.KeyDown).WithKey("/").WithCode("Slash").WithText("/"),
		input.DispatchKeyEvent(input.KeyUp).WithKey("/").WithCode("Slash"))
	b.sees("the focus in the filter", `document.activeElement.id === "filter"`)
	b.do(chromedp.KeyEvent(`rack = "r2"` + kb.Enter))
	b.sees("the search result", `document.querySelectorAll("tbody tr").length === 8`)

	// Move a machine with keys only.
	open("/ui/machines/m-06")
	b.tabTo("the action", `el.textContent === "Set phase"`)
	b.do(chromedp.KeyEvent(kb.Enter))
	b.sees("the form", `document.getElementById("phase")`)
	b.tabTo("the phases", `el.id === "phase"`)
	for range 8 {
		if eval[string](b, `document.getElementById("phase").value`) == "MAINTENANCE" {
			break
		}
		b.do(chromedp.KeyEvent(kb.ArrowDown))
	}
	b.do(chromedp.KeyEvent(kb.Tab), chromedp.KeyEvent(kb.Enter))
	b.sees("the confirmation", `document.getElementById("comment")`)
	b.tabTo("the comment", `el.id === "comment"`)
	b.do(chromedp.KeyEvent("by keys"), chromedp.KeyEvent(kb.Escape))
	b.sees("the form without focus after Escape",
		`document.activeElement === document.body && document.getElementById("comment").value === "by keys"`)
	b.tabTo("the button", `el.matches(".primary")`)
	b.do(chromedp.KeyEvent(" "))
	b.sees("the changed phase", `location.pathname === "/ui/machines/m-06" && document.querySelector("h1 .s-maintenance") && document.body.innerText.includes("by keys")`)

	// Escape leaves a form without a change.
	open("/ui/machines/m-06/phase?phase=RETIRED")
	b.do(chromedp.KeyEvent(kb.Escape))
	b.sees("the unchanged machine",
		`location.pathname === "/ui/machines/m-06" && document.querySelector("h1 .s-maintenance")`)
	b.calm()
}
