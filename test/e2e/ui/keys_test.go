package ui

import (
	"encoding/json"
	"testing"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// stop is where the tab key leads: what it is, and whether one sees that it is there.
type stop struct {
	What    string
	Index   int  // among what can be reached, in the order of the page; -1: it is none of that
	Outline bool // it is marked
	Inside  bool // it lies in the window, and nothing lies over it
}

// reachable are the elements that the tab key has to reach, in the order of the page; the browser
// decides whether they are shown.
const reachable = `[...document.querySelectorAll("a[href], button, input, select, textarea, summary, [tabindex='0']")].filter((el) =>
	el.tabIndex >= 0 && !el.disabled && el.type !== "hidden" && el.checkVisibility())`

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

// keysReach holds a page to what keyboards need: each element once, in the order of the page,
// marked and in sight.
func keysReach(t *testing.T, b *browser, name string) {
	t.Helper()
	stops := b.tabs()
	for i, s := range stops {
		if s.Index != i {
			t.Errorf("%s: the tab key leads to number %d of the page after %d: %s", name, s.Index, i-1, s.What)
			return
		}
		if !s.Outline {
			t.Errorf("%s: the focus cannot be seen: %s", name, s.What)
		}
		if !s.Inside {
			t.Errorf("%s: what has the focus is out of sight: %s", name, s.What)
		}
	}
}

// tabTo presses the tab key until what has the focus is what an expression of el says.
func (b *browser) tabTo(what, expression string) {
	b.Helper()
	for range 120 {
		b.do(chromedp.KeyEvent(kb.Tab))
		if eval[bool](b, `((el) => !!(`+expression+`))(document.activeElement)`) {
			return
		}
	}
	b.picture("failed")
	b.Fatalf("the tab key does not lead to %s", what)
}

// testKeys goes through the dashboard without a mouse.
func testKeys(t *testing.T, b *browser, l *lab, home *peer, pages map[string]string) {
	open := func(path string) {
		t.Helper()
		b.do(chromedp.Navigate(home.url()+path), chromedp.WaitVisible("#main"))
		b.sees("the page is live", `document.querySelector("#live.on")`)
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
		t.Error("the first thing that the tab key leads to is not the link past the navigation, or it is not seen")
	}
	b.picture("skip-1280-light")
	b.do(chromedp.KeyEvent(kb.Enter))
	b.sees("the content has the focus", `document.activeElement.id === "main"`)
	b.do(chromedp.KeyEvent(kb.Tab))
	if !eval[bool](b, `document.getElementById("main").contains(document.activeElement)`) {
		t.Error("after the link past the navigation the tab key leads to the navigation")
	}
	b.do(chromedp.Evaluate(`document.activeElement.blur()`, nil),
		input.DispatchKeyEvent(input.KeyDown).WithKey("/").WithCode("Slash").WithText("/"),
		input.DispatchKeyEvent(input.KeyUp).WithKey("/").WithCode("Slash"))
	b.sees("the filter has the focus", `document.activeElement.id === "filter"`)
	b.do(chromedp.KeyEvent(`rack = "r2"` + kb.Enter))
	b.sees("what was searched", `document.querySelectorAll("tbody tr").length === 8`)

	// A machine is moved by keys alone.
	open("/ui/machines/m-06")
	b.tabTo("the action", `el.textContent === "Set phase"`)
	b.do(chromedp.KeyEvent(kb.Enter))
	b.sees("the question", `document.getElementById("phase")`)
	b.tabTo("the phases", `el.id === "phase"`)
	for range 8 {
		if eval[string](b, `document.getElementById("phase").value`) == "MAINTENANCE" {
			break
		}
		b.do(chromedp.KeyEvent(kb.ArrowDown))
	}
	b.do(chromedp.KeyEvent(kb.Tab), chromedp.KeyEvent(kb.Enter))
	b.sees("what will happen", `document.getElementById("comment")`)
	b.tabTo("the comment", `el.id === "comment"`)
	b.do(chromedp.KeyEvent("by keys"), chromedp.KeyEvent(kb.Escape))
	b.sees("Escape leaves the field, and the question stays",
		`document.activeElement === document.body && document.getElementById("comment").value === "by keys"`)
	b.tabTo("the button", `el.matches(".primary")`)
	b.do(chromedp.KeyEvent(" "))
	b.sees("it was done", `location.pathname === "/ui/machines/m-06" && document.querySelector("h1 .s-maintenance") && document.body.innerText.includes("by keys")`)

	// Escape goes back from a question, and nothing was done.
	open("/ui/machines/m-06/phase?phase=RETIRED")
	b.do(chromedp.KeyEvent(kb.Escape))
	b.sees("the machine as it was",
		`location.pathname === "/ui/machines/m-06" && document.querySelector("h1 .s-maintenance")`)
	b.calm()
}
