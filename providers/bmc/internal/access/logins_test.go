package access

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-metal/holdfast/providers"
)

// However many want to log in at once, an account that is refused is not tried a third time.
func TestLoginsUnderWayCount(t *testing.T) {
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
					<-answers // the BMC takes its time
					l.Done(wrong, false)
					l.End()
					over.Add(1)
				}()
				synctest.Wait()
			}
			if want := maxRefused - before; int(tried.Load()) != want {
				t.Errorf("after %d refusals, %d logins are under way, want %d", before, tried.Load(), want)
			}
			close(answers)
			synctest.Wait()
			if int(tried.Load()) != maxRefused-before || over.Load() != 5 {
				t.Errorf("after %d refusals, %d more were tried and %d are over, want %d and 5", before, tried.Load(),
					over.Load(), maxRefused-before)
			}
			if err := l.Begin(t.Context(), Account{User: "admin", Password: "another"}); err != nil {
				t.Errorf("another password: %v", err)
			}
		})
	}
}

// One that is not let in yet goes when its caller does, and one whose BMC was silent leaves its
// place.
func TestLoginsLeaveTheirPlaces(t *testing.T) {
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
			t.Errorf("the third, after the first was over: %v", err)
		}
	})
}

// TestLoginsAreTriedAgain: an account that was refused may only have been locked, or the account
// service of the BMC was starting. One login is tried after refusedFor, by a new leader too, and
// another one only after as long again.
func TestLoginsAreTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := Account{User: "admin", Password: "secret"}
		l := NewLogins(nil)
		refuse := func() {
			t.Helper()
			if err := l.Begin(t.Context(), a); err != nil {
				t.Fatalf("login: %v, want it to be tried", err)
			}
			l.Done(a, false)
			l.End()
		}
		wait := func(d time.Duration, want bool) {
			t.Helper()
			time.Sleep(d) // sleep: it takes none in the bubble
			if err := l.Allow(a); (err == nil) != want {
				t.Errorf("after %s: got %v, want a login to be tried: %t", d, err, want)
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
			t.Errorf("after one refusal: %v, want another login to be tried", err)
		}
	})
}
