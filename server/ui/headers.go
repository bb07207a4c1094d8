package ui

import (
	"net/http"
	"strings"

	"github.com/holdfast-metal/holdfast/server/auth"
)

// policy allows pages to load files of this origin only: no inline scripts or styles, no
// other hosts, no frames.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; frame-ancestors 'none'; base-uri 'none'"

// secured sets the security headers of all dashboard responses.
func secured(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		secure(w.Header())
		if r.TLS != nil {
			w.Header().Set("Strict-Transport-Security", "max-age=31536000") // one year, this host only
		}
		h(w, r)
	}
}

func secure(h http.Header) {
	h.Set("Content-Security-Policy", policy)
	// Not no-referrer: that removes the Origin header of forms, which sameOrigin needs
	// without TLS.
	h.Set("Referrer-Policy", "same-origin")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=()")
	h.Set("Cache-Control", "no-store")
}

// sameOrigin accepts only requests sent by a page of this origin. Browsers attach cookies
// and client certificates to cross-site requests too. A request with neither Sec-Fetch-Site
// nor Origin is also refused: every browser sends one of them, and programs can use the
// API.
func (d *dashboard) sameOrigin(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		err := d.origin.Check(r)
		if err != nil || r.Header.Get("Sec-Fetch-Site") == "" && r.Header.Get("Origin") == "" {
			d.fault(w, r, http.StatusForbidden,
				"This request was not sent by a page of this dashboard, and nothing was done. "+
					"Open the dashboard at its own address and try again.")
			return
		}
		h(w, r)
	}
}

// noRoute responds to requests that match no route, such as a POST to a list.
func (d *dashboard) noRoute(w http.ResponseWriter, r *http.Request, code int, err *auth.Error) {
	secure(w.Header())
	if r.URL.Path == "/ui" {
		http.Redirect(w, r, "/ui/", http.StatusFound)
		return
	}
	d.fault(w, r, code, err.Message)
}

// refused shows an error of the gate. Users who are not signed in get the sign-in form.
func (d *dashboard) refused(w http.ResponseWriter, r *http.Request, code int, err *auth.Error) {
	secure(w.Header())
	if code != http.StatusUnauthorized {
		d.fault(w, r, code, strings.Replace(err.Message, "call "+r.Pattern, "open this page", 1))
		return
	}
	if r.Method == http.MethodGet && r.Header.Get("Sec-Fetch-Site") == "cross-site" {
		// A link from another site: the browser did not send the SameSite=Strict cookie. It
		// sends it after a reload by our own page.
		d.show(w, r, code, "again", &view{Title: "Holdfast"})
		return
	}
	message := ""
	if err.Reason != auth.ReasonNoCredentials {
		message = err.Message
	}
	d.askToken(w, r, code, r.URL.RequestURI(), message)
}
