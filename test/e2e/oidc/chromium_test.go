package oidc

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// testChromium presses the buttons in a real browser. The provider is another site, so the cookies
// and the content security policy must allow the way back.
func testChromium(t *testing.T, l *lab) {
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox,
		chromedp.Flag("ignore-certificate-errors", true), chromedp.WindowSize(1280, 900))
	alloc, stop := chromedp.NewExecAllocator(t.Context(), options...)
	defer stop()
	ctx, cancel := chromedp.NewContext(alloc)
	defer cancel()
	defer func() { // Children of a Chromium that is killed still write to its directory.
		within, done := context.WithTimeout(ctx, 10*time.Second)
		defer done()
		_ = chromedp.Cancel(within)
	}()
	var mu sync.Mutex
	var troubles []string
	chromedp.ListenTarget(ctx, func(event any) {
		mu.Lock()
		defer mu.Unlock()
		switch e := event.(type) {
		case *runtime.EventExceptionThrown:
			troubles = append(troubles, e.ExceptionDetails.Error())
		case *cdplog.EventEntryAdded:
			if strings.Contains(e.Entry.Text, "Content Security Policy") {
				troubles = append(troubles, e.Entry.Text)
			}
		}
	})
	if err := chromedp.Run(ctx, cdplog.Enable()); err != nil {
		t.Fatalf("start Chromium: %v", err)
	}
	do := func(name string, actions ...chromedp.Action) {
		t.Helper()
		within, done := context.WithTimeout(ctx, 20*time.Second)
		defer done()
		if err := chromedp.Run(within, actions...); err != nil {
			t.Fatalf("%s: %v\n%s", name, err, text(ctx))
		}
	}
	sees := func(name, expression string) {
		t.Helper()
		until(t, name+" in "+text(ctx), func() bool {
			var ok bool
			return chromedp.Run(ctx, chromedp.Evaluate("!!("+expression+")", &ok)) == nil && ok
		})
	}
	button := `//a[text()="Sign in with Example SSO"]`
	do("sign in", chromedp.Navigate(l.home+"/ui/machines"), chromedp.Click(button, chromedp.BySearch),
		chromedp.WaitVisible("#username"), chromedp.SendKeys("#username", "alice"),
		chromedp.SendKeys("#password", password+"\n"))
	sees("the page asked for first, with a live connection", `location.href === "`+l.home+`/ui/machines" &&
		document.body.innerText.includes("`+l.name("alice")+`") && document.querySelector("#live.on")`)
	do("open another page", chromedp.Click(`//nav//a[text()="Runs"]`, chromedp.BySearch))
	sees("that page", `location.pathname === "/ui/runs" && document.body.innerText.includes("`+l.name("alice")+`")`)
	do("sign out", chromedp.Click(`//button[text()="Sign out"]`, chromedp.BySearch),
		chromedp.Click(`//a[text()="Sign out of Example SSO"]`, chromedp.BySearch))
	sees("the end at the provider", `document.body.innerText.includes("signed out successfully")`)
	do("return", chromedp.Navigate(l.home+"/ui/"), chromedp.WaitVisible(button, chromedp.BySearch))
	mu.Lock()
	defer mu.Unlock()
	for _, s := range troubles {
		t.Error(s)
	}
}

// text returns the text of the page.
func text(ctx context.Context) (s string) {
	within, done := context.WithTimeout(ctx, 5*time.Second)
	defer done()
	_ = chromedp.Run(within, chromedp.Evaluate("location.href + '\\n' + document.body.innerText", &s)) // for an error
	return s
}
