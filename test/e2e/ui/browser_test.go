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

// browser is a Chromium with one window. It records errors of scripts, violations of the content
// security policy, and requests to other hosts than the peers.
type browser struct {
	*testing.T
	ctx context.Context

	mu       sync.Mutex
	troubles []string
}

func newBrowser(t *testing.T) *browser {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox,
		chromedp.Flag("ignore-certificate-errors", true))
	alloc, stop := chromedp.NewExecAllocator(context.WithoutCancel(t.Context()), options...)
	t.Cleanup(stop)
	ctx, cancel := chromedp.NewContext(alloc)
	t.Cleanup(cancel)
	t.Cleanup(func() { // Children of a Chromium that is killed still write to its directory.
		within, done := context.WithTimeout(ctx, 10*time.Second)
		defer done()
		_ = chromedp.Cancel(within)
	})
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

func (b *browser) note(problem string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.troubles = append(b.troubles, problem)
}

// calm fails the test if a problem was recorded.
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
	// The first context of a call owns the browser, so it must not end early.
	if chromedp.FromContext(b.ctx).Target == nil {
		return chromedp.Run(b.ctx, a)
	}
	ctx, cancel := context.WithTimeout(b.ctx, 30*time.Second)
	defer cancel()
	return chromedp.Run(ctx, a)
}

// eval returns the value of an expression.
func eval[T any](b *browser, expression string) T {
	b.Helper()
	var v T
	b.do(chromedp.Evaluate(expression, &v))
	return v
}

// sees blocks until an expression is true.
func (b *browser) sees(name, expression string) {
	b.Helper()
	for deadline := time.Now().Add(45 * time.Second); ; {
		var ok bool
		err := b.try(chromedp.Evaluate("!!("+expression+")", &ok))
		if err == nil && ok {
			return
		}
		if time.Now().After(deadline) {
			b.picture("failed")
			b.Fatalf("wait for %s: not within 45 s (%v); page:\n%s", name, err, eval[string](b, "document.body.innerText"))
		}
		time.Sleep(50 * time.Millisecond) // sleep: between polls of another process
	}
}

// size sets the size of the window, and a light or dark color scheme.
func (b *browser) size(width, height int64, scheme string) {
	b.Helper()
	b.do(emulation.SetDeviceMetricsOverride(width, height, 1, width < 500),
		emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}))
}

// picture writes a picture of the window to out/.
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
