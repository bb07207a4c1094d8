package ui

import (
	"net/http"
	"net/url"
	"strings"
	"time"
)

// cookieName is the session cookie. It contains the token, sealed with keys that all peers
// share. A session therefore works on every peer behind the same name and ends at once if
// the token is revoked. Without a secrets key the cookie contains the token itself.
const cookieName = "holdfast_token"

// Sessions converts tokens to cookies and back (*secrets.Sessions).
type Sessions interface {
	Begin(token string, lasts time.Duration) (cookie string, err error)
	Token(cookie string) (token string, ok bool)
}

// sessionTime is the lifetime of a session.
const sessionTime = 12 * time.Hour

// longestToken is approximately the maximum size of a cookie.
const longestToken = 3800

type signInBody struct {
	Next    string
	Message string
}

func (d *dashboard) signInPage(w http.ResponseWriter, r *http.Request) {
	d.askToken(w, r, http.StatusOK, r.URL.Query().Get("next"), "")
}

func (d *dashboard) askToken(w http.ResponseWriter, r *http.Request, code int, next, message string) {
	v := &view{Title: "Sign in", Now: d.now(), Body: signInBody{Next: localPath(next), Message: message}}
	d.show(w, r, code, "signin", v)
}

// signIn stores the token in a cookie without checking it. The next page checks it and
// shows the gate's error if it is not valid.
func (d *dashboard) signIn(w http.ResponseWriter, r *http.Request) {
	token := strings.TrimSpace(r.PostFormValue("token"))
	next := localPath(r.PostFormValue("next"))
	if token == "" || len(token) > longestToken || !printable(token) {
		d.askToken(w, r, http.StatusBadRequest, next,
			"That is not a token: want a single word, as printed by `holdfast token create`.")
		return
	}
	cookie, err := d.sessions.Begin(token, sessionTime)
	if err != nil || len(cookie) > longestToken {
		d.askToken(w, r, http.StatusBadRequest, next,
			"That token is too long for a browser session: create one with `holdfast token create`.")
		return
	}
	d.keep(w, r, cookie, int(sessionTime/time.Second))
	http.Redirect(w, r, next, http.StatusSeeOther) //nolint:gosec // localPath returns only paths of the dashboard
}

func (d *dashboard) signOut(w http.ResponseWriter, r *http.Request) {
	d.keep(w, r, "", -1)
	http.Redirect(w, r, "/ui/signin", http.StatusSeeOther)
}

func (d *dashboard) keep(w http.ResponseWriter, r *http.Request, token string, seconds int) {
	http.SetCookie(w, &http.Cookie{ //nolint:gosec // Secure with TLS; without TLS, tokens are for loopback only
		Name:     cookieName,
		Value:    token,
		Path:     "/ui/",
		MaxAge:   seconds,
		HttpOnly: true,
		Secure:   r.TLS != nil,
		SameSite: http.SameSiteStrictMode,
	})
}

// localPath returns next if it is a page of the dashboard other than the sign-in, and otherwise
// the overview.
func localPath(next string) string {
	u, err := url.Parse(next)
	invalid := err != nil || u.Scheme != "" || u.Host != "" || !strings.HasPrefix(u.Path, "/ui/")
	if invalid || strings.HasPrefix(u.Path, "/ui/sign") || strings.Contains(u.Path, "..") ||
		strings.ContainsAny(next, "\\\r\n") {
		return "/ui/"
	}
	return u.RequestURI()
}

// printable reports whether a token can be stored in a cookie unencoded.
func printable(s string) bool {
	return !strings.ContainsFunc(s, func(c rune) bool {
		return c <= ' ' || c >= 0x7f || strings.ContainsRune("\"\\,;", c)
	})
}
