package login

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"golang.org/x/oauth2"
)

// answer is the issuer's answer to the browser.
type answer struct {
	code string
	err  error
}

// Browser signs in with a browser on this machine, which the issuer returns to a loopback
// address. It blocks until that has happened, or ctx ends.
func (f *Flow) Browser(ctx context.Context, show func(address string)) (Saved, error) {
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return Saved{}, fmt.Errorf("wait for the browser: %w", err)
	}
	c := f.oauth
	c.RedirectURL = "http://" + ln.Addr().String() + "/callback"
	state, verifier, answers := rand.Text(), oauth2.GenerateVerifier(), make(chan answer, 1)
	srv := &http.Server{Handler: f.callback(state, answers), ReadHeaderTimeout: timeout}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = srv.Serve(ln) // ends with Shutdown
	}()
	defer func() {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = srv.Shutdown(end) // the browser gets its page
		_ = srv.Close()
		<-served
	}()
	show(c.AuthCodeURL(state, oauth2.S256ChallengeOption(verifier)))
	var got answer
	select {
	case got = <-answers:
	case <-ctx.Done():
		return Saved{}, f.refused("sign in with", ctx.Err())
	}
	if got.err != nil {
		return Saved{}, got.err
	}
	t, err := c.Exchange(withClient(ctx), got.code, oauth2.VerifierOption(verifier))
	if err != nil {
		return Saved{}, f.refused("sign in with", err)
	}
	return f.saved(t)
}

// callback accepts the first answer with the right state. Others are refused, and change nothing:
// any page can send one.
func (f *Flow) callback(state string, answers chan<- answer) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /callback", func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("Referrer-Policy", "no-referrer")
		if subtle.ConstantTimeCompare([]byte(q.Get("state")), []byte(state)) != 1 {
			http.Error(w, "This sign-in was not begun by the command that waits here.", http.StatusBadRequest)
			return
		}
		a, text := answer{code: q.Get("code")}, "You are signed in. You can close this page."
		if code := q.Get("error"); code != "" || a.code == "" {
			a.err = f.refused("sign in with", &oauth2.RetrieveError{ErrorCode: code, Response: &http.Response{}})
			if code == "" {
				a.err = errors.New("sign in with " + f.issuer.URL + ": it returned no code")
			}
			text = "The sign-in has failed: see the command line. You can close this page."
		}
		select {
		case answers <- a:
		default: // there was one
		}
		_, _ = fmt.Fprintln(w, text)
	})
	return mux
}
