package signin

import (
	"net/http"
	"net/url"
	"strings"

	"google.golang.org/grpc/codes"

	"github.com/holdfast-metal/holdfast/server/auth"
)

// redirected is the parameter of a sign-in that was sent to the configured address.
const redirected = "redirected"

// redirectURL returns the address to which the issuer returns the browser: the configured one,
// or that of the request. The issuer compares it with the addresses of its client.
func redirectURL(r *http.Request, configured string) (string, *auth.Error) {
	if configured != "" {
		return configured, nil
	}
	u := url.URL{Scheme: "https", Host: r.Host, Path: auth.CallbackPath}
	if r.TLS == nil {
		u.Scheme = "http"
	}
	back, err := url.Parse(u.String())
	if err != nil || back.Host != r.Host || back.Hostname() == "" || back.User != nil {
		return "", refuse(codes.InvalidArgument, auth.ReasonSignInState, "The address of this page is not valid.")
	}
	if u.Scheme == "http" && !auth.Loopback(back.Hostname()) {
		return "", refuse(codes.FailedPrecondition, auth.ReasonSignInState,
			"Signing in needs https. If a proxy in front of this peer has it, an admin sets redirect_url of the issuer.")
	}
	return u.String(), nil
}

// canonicalURL returns the address of the same step on the host of the configured address, because
// the cookie of the sign-in is for one host. It is empty if the request is there. A proxy may
// hide the host, so a request is sent on once only.
func canonicalURL(r *http.Request, configured string) string {
	u, err := url.Parse(configured)
	if configured == "" || err != nil || strings.EqualFold(u.Host, r.Host) || r.URL.Query().Has(redirected) {
		return ""
	}
	q := r.URL.Query()
	q.Set(redirected, "1")
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: r.URL.Path, RawQuery: q.Encode()}).String()
}
