package ui

import (
	"net/http"

	"github.com/holdfast-metal/holdfast/server/auth"
)

// policy lets a page load what lies beside it, and nothing else: no script or style in the page
// itself, no other host, no frame around it.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"

// secured sets what every answer of the dashboard says to the browser.
func secured(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		secure(w.Header())
		if r.TLS != nil {
			w.Header().Set("Strict-Transport-Security", "max-age=31536000") // a year, this host alone
		}
		h(w, r)
	}
}

func secure(h http.Header) {
	h.Set("Content-Security-Policy", policy)
	// Not no-referrer: that takes away the Origin of forms, by which they are known as ours where
	// there is no TLS.
	h.Set("Referrer-Policy", "same-origin")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=()")
	h.Set("Cache-Control", "no-store")
}

// sameOrigin lets only requests through that a page of this origin has sent. A browser sends a
// cookie, and picks a client certificate, whoever asks; so what brings neither Sec-Fetch-Site nor
// Origin is refused too: every browser sends one of them, and programs have the API.
func (d *dashboard) sameOrigin(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		err := d.origin.Check(r)
		if err != nil || r.Header.Get("Sec-Fetch-Site") == "" && r.Header.Get("Origin") == "" {
			d.fault(w, r, http.StatusForbidden, "This was not sent by a page of this dashboard, and nothing was done. Open the dashboard at its own address and try again.")
			return
		}
		h(w, r)
	}
}

// refused words what the gate says: to somebody unknown, with the form to sign in.
func (d *dashboard) refused(w http.ResponseWriter, r *http.Request, code int, err *auth.Error) {
	secure(w.Header())
	if code != http.StatusUnauthorized {
		d.fault(w, r, code, err.Message)
		return
	}
	if r.Method == http.MethodGet && r.Header.Get("Sec-Fetch-Site") == "cross-site" {
		// A link from elsewhere: the browser has kept the cookie back. Asked by a page of ours it
		// sends it.
		d.show(w, r, code, "again", &view{Title: "Holdfast"})
		return
	}
	message := ""
	if c, e := r.Cookie(cookieName); e == nil && c.Value != "" {
		message = err.Message
	}
	d.askToken(w, r, code, r.URL.RequestURI(), message)
}
