package ui

import (
	"fmt"
	"testing"
)

// checkFit checks that texts fit their elements, that no word is broken between two letters, that
// drawings are readable, and that no tile is alone in its row.
func checkFit(t *testing.T, b *browser, title string) {
	t.Helper()
	for name, expression := range map[string]string{"cut without a title": cut, "sticks out": outside,
		"broken word": broken, "tiny text in a drawing": tiny, "tile alone in its row": alone} {
		for _, found := range eval[[]string](b, expression) {
			t.Errorf("%s: %s: %s", title, name, found)
		}
	}
}

// cut lists texts that do not fit their element and are cut off, without a title that has them.
const cut = `[...document.querySelectorAll("body *")].filter((el) => {
	const css = getComputedStyle(el);
	if (el.closest(".hidden, .skip, svg, pre, textarea, [title]") || el.matches("input, select, option") || !el.textContent.trim() || !el.checkVisibility()) return false;
	const clips = (v) => v === "hidden" || v === "clip";
	const wide = el.scrollWidth > el.clientWidth + 1, high = el.scrollHeight > el.clientHeight + 2;
	return el.clientWidth > 1 && (clips(css.overflowX) && wide || clips(css.overflowY) && high && css.webkitLineClamp !== "none");
}).map((el) => el.outerHTML.slice(0, 160))`

// outside lists elements whose text is wider than they are.
const outside = `[...document.querySelectorAll("main :is(td, th, dd, dt, p, li, h1, h2, .tile, .button, .state)")].filter((el) =>
	el.checkVisibility() && !el.closest(".hidden, .log") && getComputedStyle(el).display !== "inline" &&
	getComputedStyle(el).overflowX === "visible" && el.scrollWidth > el.clientWidth + 2
).map((el) => el.outerHTML.slice(0, 160))`

// longest is the length from which a word may be broken anywhere. So may one with 24 letters in a
// row.
const longest = 45

// broken lists words that are broken between two letters or digits, other than before a capital
// letter, as in Register/Machine.
var broken = fmt.Sprintf(`(() => {
	const found = [], range = document.createRange();
	const walk = document.createTreeWalker(document.querySelector("main"), NodeFilter.SHOW_TEXT);
	const top = (node, i) => { range.setStart(node, i); range.setEnd(node, i + 1); return range.getBoundingClientRect().top; };
	while (walk.nextNode()) {
		const node = walk.currentNode, el = node.parentElement;
		range.selectNodeContents(node);
		if (el.closest("svg, pre, textarea, option, .hidden") || !el.checkVisibility() || range.getClientRects().length < 2) continue;
		for (const word of node.data.matchAll(/\S+/g)) {
			if (word[0].length >= %d || /[a-z0-9]{24}/.test(word[0])) continue;
			for (let i = 1; i < word[0].length; i++) {
				const at = word.index + i, pair = node.data.slice(at - 1, at + 1);
				if (/^[A-Za-z0-9]{2}$/.test(pair) && !/^[a-z][A-Z]$/.test(pair) && top(node, at) - top(node, at - 1) > 5)
					found.push(node.data.slice(word.index, at) + "|" + node.data.slice(at, word.index + word[0].length));
			}
		}
	}
	return found;
})()`, longest)

// tiny lists texts of drawings that are shown smaller than 9 pixels.
const tiny = `[...document.querySelectorAll("main svg text")].filter((el) => el.checkVisibility() &&
	parseFloat(getComputedStyle(el).fontSize) * el.getScreenCTM().a < 9).map((el) => el.outerHTML)`

// alone lists tiles that are the only one of the last row without having its width.
const alone = `[...document.querySelectorAll(".tiles")].flatMap((box) => {
	const all = [...box.children], last = all.at(-1);
	const row = all.filter((el) => el.offsetTop === last.offsetTop);
	return all.length > 1 && row.length === 1 && last.offsetWidth < box.clientWidth - 4 ? [last.outerHTML.slice(0, 160)] : [];
})`
