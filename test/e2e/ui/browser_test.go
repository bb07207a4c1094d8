package ui

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// browser is a Chromium with one window. It notes what a page must not do: errors of scripts, what
// the content security policy had to stop, and requests to anybody but the peers.
type browser struct {
	*testing.T
	ctx context.Context

	mu       sync.Mutex
	troubles []string
}

func newBrowser(t *testing.T) *browser {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox,
		chromedp.Flag("ignore-certificate-errors", true), chromedp.UserDataDir(t.TempDir()))
	alloc, stop := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(stop)
	ctx, cancel := chromedp.NewContext(alloc)
	t.Cleanup(cancel)
	b := &browser{T: t, ctx: ctx}
	chromedp.ListenTarget(ctx, func(ev any) {
		switch e := ev.(type) {
		case *runtime.EventExceptionThrown:
			b.note("script: " + e.ExceptionDetails.Error())
		case *cdplog.EventEntryAdded:
			if strings.Contains(e.Entry.Text, "Content Security Policy") ||
				strings.Contains(e.Entry.Text, "Permissions policy") {
				b.note(e.Entry.Text)
			}
		case *network.EventRequestWillBeSent:
			if u := e.Request.URL; !strings.HasPrefix(u, "https://127.0.0.1:") && !strings.HasPrefix(u, "data:") {
				b.note("request to " + u)
			}
		}
	})
	b.do(network.Enable(), cdplog.Enable())
	return b
}

func (b *browser) note(what string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.troubles = append(b.troubles, what)
}

// calm fails when a page has done what it must not do.
func (b *browser) calm() {
	b.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range b.troubles {
		b.Error(s)
	}
	b.troubles = nil
}

// do runs actions, each within half a minute.
func (b *browser) do(actions ...chromedp.Action) {
	b.Helper()
	for _, a := range actions {
		if err := b.try(a); err != nil {
			b.picture("failed")
			b.Fatalf("%T: %v", a, err)
		}
	}
}

func (b *browser) try(a chromedp.Action) error {
	// The first context that is run with owns the browser: it is not one that ends early.
	if chromedp.FromContext(b.ctx).Target == nil {
		return chromedp.Run(b.ctx, a)
	}
	ctx, cancel := context.WithTimeout(b.ctx, 30*time.Second)
	defer cancel()
	return chromedp.Run(ctx, a)
}

// eval returns what an expression is.
func eval[T any](b *browser, expression string) T {
	b.Helper()
	var v T
	b.do(chromedp.Evaluate(expression, &v))
	return v
}

// sees waits until an expression is true.
func (b *browser) sees(what, expression string) {
	b.Helper()
	for deadline := time.Now().Add(45 * time.Second); ; {
		var ok bool
		err := b.try(chromedp.Evaluate("!!("+expression+")", &ok))
		if err == nil && ok {
			return
		}
		if time.Now().After(deadline) {
			b.picture("failed")
			b.Fatalf("%s: not seen within 45 s (%v); the page says:\n%s", what, err, eval[string](b, "document.body.innerText"))
		}
		time.Sleep(50 * time.Millisecond) // sleep: between two looks at another process
	}
}

// size sets the window, and whether it is light or dark.
func (b *browser) size(width, height int64, scheme string) {
	b.Helper()
	b.do(emulation.SetDeviceMetricsOverride(width, height, 1, width < 500),
		emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}))
}

// picture keeps what the window shows in out/.
func (b *browser) picture(name string) {
	b.Helper()
	var png []byte
	if err := b.try(chromedp.FullScreenshot(&png, 100)); err != nil {
		b.Logf("take a picture of %s: %v", name, err)
		return
	}
	if err := os.MkdirAll("out", 0o755); err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join("out", name+".png"), png, 0o644); err != nil {
		b.Fatal(err)
	}
}
