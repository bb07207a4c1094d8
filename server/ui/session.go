package ui

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"time"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/auth"
	"github.com/holdfast-metal/holdfast/server/httpjson"
	"github.com/holdfast-metal/holdfast/server/internal/signin"
)

// cookieName is the session cookie (with TLS: __Host- and this name). It contains the token and the
// id of the session, sealed with keys that all peers share. A session therefore works on every peer
// behind the same name, and ends at once if it is ended or the token is revoked. Without a secrets
// key the cookie is not encrypted.
const cookieName = "holdfast_token"

// flowCookie is the cookie of a sign-in with an issuer that has begun. Unlike the session it is
// sent with the issuer's answer, which comes from another site.
const flowCookie = "holdfast_signin"

// Sealer returns texts that every peer can read for a limited time (*secrets.Sessions).
type Sealer = signin.Sealer

// sealUse separates session cookies from other sealed texts.
const sealUse = "session"

// sealed is the content of a session cookie.
type sealed struct {
	ID      string `json:"i"`
	Token   string `json:"t"`
	Expires int64  `json:"e"` // seconds since 1970
}

// seal returns the cookie of a new session.
func (d *dashboard) seal(token string, lasts time.Duration) (string, error) {
	b, err := json.Marshal(sealed{ID: "ui-" + rand.Text(), Token: token, Expires: d.now().Add(lasts).Unix()})
	if err != nil {
		return "", err
	}
	return d.sealer.Seal(sealUse, b, lasts)
}

// unseal returns the content of a session cookie, and whether it is valid.
func (d *dashboard) unseal(value string) (auth.Cookie, bool) {
	var c sealed
	b, ok := d.sealer.Unseal(sealUse, value)
	if !ok || json.Unmarshal(b, &c) != nil || c.ID == "" || c.Token == "" {
		return auth.Cookie{}, false
	}
	return auth.Cookie{ID: c.ID, Token: c.Token, Expires: time.Unix(c.Expires, 0)}, true
}

// sessionTime is the lifetime of a session.
const sessionTime = 12 * time.Hour

// maxCookie is about the maximum size of a cookie, in bytes.
const maxCookie = 3800

type signInBody struct {
	Next    string
	Message string
	Issuers []signin.Choice
	End     string        // the address at which Ended ends its own session
	Ended   signin.Choice // the issuer of the session that the user has ended
}

// signInPage asks who the user is. The parameter ended is the issuer of the session that the user
// has ended.
func (d *dashboard) signInPage(w http.ResponseWriter, r *http.Request) {
	body := signInBody{Next: localPath(r.URL.Query().Get("next"))}
	if issuer := r.URL.Query().Get("ended"); issuer != "" {
		body.End, body.Ended = d.people.EndURL(r, issuer)
	}
	d.askUser(w, r, http.StatusOK, body)
}

func (d *dashboard) askToken(w http.ResponseWriter, r *http.Request, code int, next, message string) {
	d.askUser(w, r, code, signInBody{Next: localPath(next), Message: message})
}

func (d *dashboard) askUser(w http.ResponseWriter, r *http.Request, code int, body signInBody) {
	body.Issuers = d.people.Choices()
	d.show(w, r, code, "signin", &view{Title: "Sign in", Now: d.now(), Body: body})
}

// signInWith sends the browser to an issuer. It is a link and not a form, because the content
// security policy forbids forms that lead to other hosts.
func (d *dashboard) signInWith(w http.ResponseWriter, r *http.Request) {
	next := localPath(r.URL.Query().Get("next"))
	begun, err := d.people.Begin(r, r.URL.Query().Get("issuer"), next)
	if err != nil {
		d.askToken(w, r, auth.StatusOf(err.Code), next, err.Message)
		return
	}
	if begun.Cookie != "" {
		setFlow(w, r, begun.Cookie, begun.Secure, int(signin.Lifetime/time.Second))
	}
	http.Redirect(w, r, begun.URL, http.StatusSeeOther)
}

// signedIn handles the answer of an issuer, and begins a session that ends with its token.
func (d *dashboard) signedIn(w http.ResponseWriter, r *http.Request) {
	value := ""
	if c, err := r.Cookie(auth.CookieName(r, flowCookie)); err == nil {
		value = c.Value
	}
	setFlow(w, r, "", r.TLS != nil, -1)
	s, refusal := d.people.Finish(r, value)
	next := localPath(s.Next)
	if refusal != nil {
		code := auth.StatusOf(refusal.Code)
		if code == http.StatusUnauthorized { // required by RFC 9110
			w.Header().Set("WWW-Authenticate", `Bearer realm="holdfast"`)
		}
		d.askToken(w, r, code, next, refusal.Message)
		return
	}
	d.begin(w, r, s.Token, min(sessionTime, s.Expires.Sub(d.now())), next,
		"The token of the identity provider is too long for a browser session. "+
			"Its administrator reduces the groups and claims in the tokens of this application.")
}

// begin begins a session with a token and continues with the page next. If the token does not fit
// into a cookie, it shows the message tooLong.
func (d *dashboard) begin(
	w http.ResponseWriter, r *http.Request, token string, lasts time.Duration, next, tooLong string,
) {
	cookie, err := d.seal(token, lasts)
	if err != nil || len(cookie) > maxCookie || !printable(cookie) {
		d.askToken(w, r, http.StatusBadRequest, next, tooLong)
		return
	}
	d.setSession(w, r, cookie, int(lasts/time.Second))
	http.Redirect(w, r, next, http.StatusSeeOther) //nolint:gosec // localPath returns only paths of the dashboard
}

// setFlow sets the cookie of a sign-in; with seconds -1 it deletes it.
func setFlow(w http.ResponseWriter, r *http.Request, value string, secure bool, seconds int) {
	http.SetCookie(w, &http.Cookie{ //nolint:gosec // Secure with TLS; without TLS, sign-ins are for loopback only
		Name:     auth.CookieName(r, flowCookie),
		Value:    value,
		Path:     cookiePath(r, "/ui/signin"),
		MaxAge:   seconds,
		HttpOnly: true,
		Secure:   secure,
		SameSite: http.SameSiteLaxMode,
	})
}

// cookiePath returns the path of a cookie. With TLS it is the whole host, which the prefix __Host-
// requires.
func cookiePath(r *http.Request, path string) string {
	if r.TLS != nil {
		return "/"
	}
	return path
}

// signIn stores the token in a cookie without checking it. The next page checks it and
// shows the gate's error if it is not valid.
func (d *dashboard) signIn(w http.ResponseWriter, r *http.Request) {
	token := strings.TrimSpace(r.PostFormValue("token"))
	next := localPath(r.PostFormValue("next"))
	if token == "" || len(token) > maxCookie || !printable(token) {
		d.askToken(w, r, http.StatusBadRequest, next,
			"That is not a token: want a single word, as printed by `holdfast token create`.")
		return
	}
	d.begin(w, r, token, sessionTime, next,
		"That token is too long for a browser session: create one with `holdfast token create`.")
}

// signOut ends the session of the browser on all peers.
func (d *dashboard) signOut(w http.ResponseWriter, r *http.Request) {
	session := auth.CallerFrom(r.Context()).Session()
	if session.GetKind() == auth.KindDashboard {
		ctx, cancel := context.WithTimeout(r.Context(), pageTimeout)
		defer cancel()
		_, err := holdfastv1.NewSessionServiceClient(d.rpc).EndSession(ctx,
			&holdfastv1.EndSessionRequest{SessionId: session.GetSessionId()})
		if err != nil {
			d.setSession(w, r, "", -1)
			d.fault(w, r, http.StatusServiceUnavailable, "This browser is signed out, but the cluster could not end the "+
				"session: "+httpjson.Message(err)+". A copy of its cookie works until "+
				session.GetExpiresAt().AsTime().UTC().Format(time.RFC3339)+".")
			return
		}
	}
	d.signedOut(w, r)
}

// signedOut deletes the cookie, and shows how to sign out of the issuer too.
func (d *dashboard) signedOut(w http.ResponseWriter, r *http.Request) {
	to := "/ui/signin"
	if c, err := r.Cookie(auth.CookieName(r, cookieName)); err == nil {
		if content, ok := d.unseal(c.Value); ok {
			if issuer := d.people.IssuerOf(content.Token); issuer != "" {
				to += "?" + url.Values{"ended": {issuer}}.Encode()
			}
		}
	}
	d.setSession(w, r, "", -1)
	http.Redirect(w, r, to, http.StatusSeeOther)
}

// setSession sets the cookie of a session; with seconds -1 it deletes it.
func (d *dashboard) setSession(w http.ResponseWriter, r *http.Request, value string, seconds int) {
	http.SetCookie(w, &http.Cookie{ //nolint:gosec // Secure with TLS; without TLS, tokens are for loopback only
		Name:     auth.CookieName(r, cookieName),
		Value:    value,
		Path:     cookiePath(r, "/ui/"),
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
