package ui

import (
	"net/http"
	"net/url"
	"strings"
	"time"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// cookieName is the cookie of a session. It holds the token, sealed by the keys that all peers
// have, so a session works on every peer that the browser reaches under the same name, and ends at
// once when the token is revoked. Without a secrets key it is the token itself.
const cookieName = "holdfast_token"

// Sessions makes cookies of tokens, and tokens of cookies (*seal.Sessions).
type Sessions interface {
	Begin(token string, lasts time.Duration) (cookie string, err error)
	Token(cookie string) (token string, ok bool)
}

// sessionTime is how long a session lasts.
const sessionTime = 12 * time.Hour

// longestToken is about what a cookie can hold.
const longestToken = 3800

type signInBody struct {
	Next    string
	Message string
}

func (d *dashboard) signInPage(w http.ResponseWriter, r *http.Request) {
	d.askToken(w, r, http.StatusOK, r.URL.Query().Get("next"), "")
}

func (d *dashboard) askToken(w http.ResponseWriter, r *http.Request, code int, next, message string) {
	d.show(w, r, code, "signin", &view{Title: "Sign in", Now: d.now(), Body: signInBody{Next: ours(next), Message: message}})
}

// signIn keeps the token. Whether it is a good one is said by the page that it leads to, in the
// gate's words: here nothing is let in.
func (d *dashboard) signIn(w http.ResponseWriter, r *http.Request) {
	token := strings.TrimSpace(r.PostFormValue("token"))
	next := ours(r.PostFormValue("next"))
	if token == "" || len(token) > longestToken || !printable(token) {
		d.askToken(w, r, http.StatusBadRequest, next, "That is not a token: it is one word, as `holdfast token create` prints it.")
		return
	}
	cookie, err := d.sessions.Begin(token, sessionTime)
	if err != nil || len(cookie) > longestToken {
		d.askToken(w, r, http.StatusBadRequest, next, "That token is too long for a browser session: make one with `holdfast token create`.")
		return
	}
	d.keep(w, r, cookie, int(sessionTime/time.Second))
	http.Redirect(w, r, next, http.StatusSeeOther) //nolint:gosec // ours has made it a path of the dashboard
}

func (d *dashboard) signOut(w http.ResponseWriter, r *http.Request) {
	d.keep(w, r, "", -1)
	http.Redirect(w, r, "/ui/signin", http.StatusSeeOther)
}

func (d *dashboard) keep(w http.ResponseWriter, r *http.Request, token string, seconds int) {
	http.SetCookie(w, &http.Cookie{ //nolint:gosec // Secure wherever there is TLS; without it tokens are for loopback only
		Name: cookieName, Value: token, Path: "/ui/", MaxAge: seconds, HttpOnly: true, Secure: r.TLS != nil, SameSite: http.SameSiteStrictMode,
	})
}

// ours returns a path of the dashboard to go to: never another host, nor what only leads back here.
func ours(next string) string {
	u, err := url.Parse(next)
	if err != nil || u.Scheme != "" || u.Host != "" || !strings.HasPrefix(u.Path, "/ui/") || strings.HasPrefix(u.Path, "/ui/sign") || strings.Contains(u.Path, "..") || strings.ContainsAny(next, "\\\r\n") {
		return "/ui/"
	}
	return u.RequestURI()
}

// printable reports whether a token can stand in a cookie as it is.
func printable(s string) bool {
	for _, c := range []byte(s) {
		if c <= ' ' || c >= 0x7f || strings.ContainsRune("\"\\,;", rune(c)) {
			return false
		}
	}
	return true
}

// scope reports what somebody sees, for the corner of the page.
func scope(id *holdfastv1.Identity) string {
	role := strings.ToLower(id.GetRole().String())
	if len(id.GetPools()) == 0 {
		return role
	}
	return role + " of " + strings.Join(id.GetPools(), ", ")
}
