package access

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-metal/holdfast/providers"
)

// A refused account is not tried a third time, however many concurrent logins are requested.
func TestLoginsInProgressCount(t *testing.T) {
	wrong := Account{User: "admin", Password: "wrong"}
	for before := range maxRefused + 1 {
		synctest.Test(t, func(t *testing.T) {
			l := NewLogins(nil)
			l.Recall(before, wrong.version())
			var tried, over atomic.Int32
			answers := make(chan struct{})
			for range 5 {
				go func() {
					if err := l.Begin(t.Context(), wrong); err != nil {
						if providers.ClassOf(err) != providers.Auth {
							t.Errorf("got %v, want class auth", err)
						}
						over.Add(1)
						return
					}
					tried.Add(1)
					<-answers // slow answer of the BMC
					l.Done(wrong, false)
					l.End()
					over.Add(1)
				}()
				synctest.Wait()
			}
			if want := maxRefused - before; int(tried.Load()) != want {
				t.Errorf("after %d refusals: got %d logins in progress, want %d", before, tried.Load(), want)
			}
			close(answers)
			synctest.Wait()
			if int(tried.Load()) != maxRefused-before || over.Load() != 5 {
				t.Errorf("after %d refusals: got %d more tries and %d ends, want %d and 5", before, tried.Load(),
					over.Load(), maxRefused-before)
			}
			if err := l.Begin(t.Context(), Account{User: "admin", Password: "another"}); err != nil {
				t.Errorf("login with another password: %v", err)
			}
		})
	}
}

// A waiting login ends with its caller, and a login at a silent BMC frees its slot.
func TestLoginsFreeTheirSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := Account{User: "admin", Password: "secret"}
		l := NewLogins(nil)
		for range maxRefused {
			if err := l.Begin(t.Context(), a); err != nil {
				t.Fatal(err)
			}
		}
		done := make(chan error, 1)
		go func() { done <- l.Begin(t.Context(), a) }()
		synctest.Wait()
		l.End()
		if err := <-done; err != nil {
			t.Errorf("third login, after the first one has ended: %v", err)
		}
	})
}

// TestLoginsAreTriedAgain checks that a refused account is tried again, because it may have been
// locked, or the account service was starting. One login is tried after refusedFor, also by a new
// leader, and the next one only after the same time again.
func TestLoginsAreTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := Account{User: "admin", Password: "secret"}
		l := NewLogins(nil)
		refuse := func() {
			t.Helper()
			if err := l.Begin(t.Context(), a); err != nil {
				t.Fatalf("login: got %v, want a try", err)
			}
			l.Done(a, false)
			l.End()
		}
		wait := func(d time.Duration, want bool) {
			t.Helper()
			time.Sleep(d) // sleep: fake clock
			if err := l.Allow(a); (err == nil) != want {
				t.Errorf("after %s: got %v, want a try: %t", d, err, want)
			}
		}
		refuse()
		refuse()
		wait(refusedFor-time.Second, false)
		wait(time.Second, true)
		refuse()
		wait(refusedFor-time.Second, false)
		wait(time.Second, true)

		next := NewLogins(nil)
		next.Recall(maxRefused, a.version())
		l = next
		wait(refusedFor-time.Second, false)
		wait(time.Second, true)
		if err := l.Begin(t.Context(), a); err != nil {
			t.Fatal(err)
		}
		l.Done(a, true)
		l.End()
		refuse()
		if err := l.Allow(a); err != nil {
			t.Errorf("after one refusal: got %v, want another try", err)
		}
	})
}
