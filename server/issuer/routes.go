package issuer

import (
	"encoding/json"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-metal/holdfast/server/auth"
)

// defaultPath is where the issuer is unless its URL says otherwise.
const defaultPath = "/oidc"

// Routes adds the issuer's routes: below /oidc, below the path of its URL, and where clients that
// were made for Keycloak look for them (003 §Step 1:
// http://auth-server/realms/wanaku/protocol/openid-connect/token, which such a client takes for an
// issuer). Anybody may call them: clients have no token yet.
func (i *Issuer) Routes(m *auth.Mux) {
	const realm, protocol = "/realms/{realm}", "/realms/{realm}/protocol/openid-connect"
	const discovery = "/.well-known/openid-configuration"
	paths := []string{defaultPath}
	if i.url != nil && !slices.Contains(paths, i.url.Path) {
		paths = append(paths, i.url.Path)
	}
	handle := func(pattern string, h http.HandlerFunc) {
		m.HandleFunc(pattern, auth.Public(), refused, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Cache-Control", "no-store") // RFC 6749 §5.1; and what is made from the Host is for its sender alone
			h(w, r)
		})
	}
	for _, p := range paths {
		handle("GET "+p+discovery, i.discover(p, p))
		handle("GET "+p+"/jwks", i.jwks)
		handle("POST "+p+"/token", i.token)
	}
	for _, p := range []string{realm, protocol + "/token"} {
		handle("GET "+p+discovery, i.discover(p, ""))
	}
	handle("GET "+protocol+"/certs", i.jwks)
	handle("POST "+protocol+"/token", i.token)
}

// refused writes what the gate refuses, such as too many calls, in the form of RFC 6749 section
// 5.2.
func refused(w http.ResponseWriter, _ *http.Request, status int, err *auth.Error) {
	code := "temporarily_unavailable"
	if status == http.StatusForbidden {
		code = "access_denied"
	}
	refuse(w, status, code, err.Message)
}

// base returns scheme and host that a request was sent to, or those of the issuer's URL. It is
// empty if the request names none that could be one.
func (i *Issuer) base(r *http.Request) string {
	if i.url != nil {
		return i.url.Scheme + "://" + i.url.Host
	}
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	host := r.Host
	if name, _, err := net.SplitHostPort(host); err == nil && name == "" || strings.ContainsAny(host, "/?#@\\ \"<>") {
		return ""
	}
	u, err := url.Parse(scheme + "://" + host)
	if err != nil || u.Host == "" || u.Host != host {
		return ""
	}
	return scheme + "://" + host
}

// name returns the issuer's own URL, for "iss".
func (i *Issuer) name(r *http.Request) string {
	if i.url != nil {
		return i.url.String()
	}
	base := i.base(r)
	if base == "" {
		return ""
	}
	path := defaultPath
	if realm := r.PathValue("realm"); realm != "" {
		path = "/realms/" + url.PathEscape(realm)
	}
	return base + path
}

// document is the discovery document (OpenID Connect Discovery §3, RFC 8414 §2).
type document struct {
	Issuer            string   `json:"issuer"`
	TokenEndpoint     string   `json:"token_endpoint"`
	JWKSURI           string   `json:"jwks_uri"`
	ResponseTypes     []string `json:"response_types_supported"`
	SubjectTypes      []string `json:"subject_types_supported"`
	SigningAlgorithms []string `json:"id_token_signing_alg_values_supported"`
	GrantTypes        []string `json:"grant_types_supported"`
	ClientAuth        []string `json:"token_endpoint_auth_methods_supported"`
	Scopes            []string `json:"scopes_supported"`
}

// discover answers the discovery document of the issuer that the path belongs to: its own URL is
// the request's without the well-known part, as the standard wants it, unless the issuer has a URL
// and this is its path. Endpoints are below own, or where Keycloak has them.
func (i *Issuer) discover(pattern, own string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if _, err := i.ready(); err != nil {
			i.fail(w, r, err)
			return
		}
		base := i.base(r)
		if base == "" {
			refuse(w, http.StatusBadRequest, "invalid_request", "the Host of the request is no host")
			return
		}
		realm := "/realms/" + url.PathEscape(r.PathValue("realm"))
		d := document{
			Issuer: base + own, TokenEndpoint: base + own + "/token", JWKSURI: base + own + "/jwks",
			ResponseTypes: []string{"token"}, SubjectTypes: []string{"public"}, SigningAlgorithms: []string{"ES256"}, GrantTypes: []string{"client_credentials"},
			ClientAuth: []string{"client_secret_basic", "client_secret_post"}, Scopes: []string{scope},
		}
		switch {
		case own == "":
			d.Issuer = base + strings.ReplaceAll(pattern, "/realms/{realm}", realm)
			d.TokenEndpoint, d.JWKSURI = base+realm+"/protocol/openid-connect/token", base+realm+"/protocol/openid-connect/certs"
		case i.url != nil:
			d.Issuer = i.url.String()
			d.TokenEndpoint, d.JWKSURI = d.Issuer+"/token", d.Issuer+"/jwks"
		}
		answer(w, http.StatusOK, d)
	}
}

// jwks answers the public keys: those that sign, have signed, or will.
func (i *Issuer) jwks(w http.ResponseWriter, r *http.Request) {
	if _, err := i.ready(); err != nil {
		i.fail(w, r, err)
		return
	}
	now := i.now()
	set := struct {
		Keys []json.RawMessage `json:"keys"`
	}{[]json.RawMessage{}}
	for _, k := range i.state.View().SigningKeys() {
		if !retired(k, now) {
			set.Keys = append(set.Keys, json.RawMessage(k.GetPublicJwk()))
		}
	}
	w.Header().Set("Cache-Control", "public, max-age="+strconv.Itoa(300))
	answer(w, http.StatusOK, set)
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the client is gone: nobody to tell
}
