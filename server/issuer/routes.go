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

// defaultPath is the issuer's path if its URL has none. sdkPath is the issuer of a client of 003
// that knows only the router's address.
const (
	defaultPath = "/oidc"
	sdkPath     = "/q/oidc"
)

// Routes adds the issuer's routes: below /oidc and /q/oidc, below the path of its URL, and at the
// paths of Keycloak. Clients made for Keycloak call
// http://auth-server/realms/wanaku/protocol/openid-connect/token and take that for an
// issuer (003, step 1). The routes are public, because clients have no token yet.
func (i *Issuer) Routes(m *auth.Mux) {
	const realm, protocol = "/realms/{realm}", "/realms/{realm}/protocol/openid-connect"
	const discovery = "/.well-known/openid-configuration"
	paths := []string{defaultPath, sdkPath}
	if i.url != nil && !slices.Contains(paths, i.url.Path) {
		paths = append(paths, i.url.Path)
	}
	handle := func(pattern string, h http.HandlerFunc) {
		m.HandleFunc(pattern, auth.Public(), refused, func(w http.ResponseWriter, r *http.Request) {
			// RFC 6749 §5.1. Also, a response derived from the Host is valid for its sender
			// only.
			w.Header().Set("Cache-Control", "no-store")
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

// refused writes an error of the gate, such as too many requests, in the form of RFC 6749
// section 5.2.
func refused(w http.ResponseWriter, _ *http.Request, status int, err *auth.Error) {
	code := "temporarily_unavailable"
	if status == http.StatusForbidden {
		code = "access_denied"
	}
	refuse(w, status, code, err.Message)
}

// base returns the scheme and host of the issuer's URL or, if it has none, of the request.
// It returns "" if the request's Host is invalid.
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

// name returns the issuer's URL, which is the claim "iss".
func (i *Issuer) name(r *http.Request) string {
	if i.url != nil {
		return i.url.String()
	}
	base := i.base(r)
	if base == "" {
		return ""
	}
	path := defaultPath
	if strings.HasPrefix(r.URL.Path, sdkPath+"/") {
		path = sdkPath
	}
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

// discover returns a handler for the discovery document of the issuer at a path. The
// document's issuer is the request's URL without the well-known part, as the standard
// requires, unless Config.URL is set and this is its path. Endpoints are below own, or at
// Keycloak's paths if own is "".
func (i *Issuer) discover(pattern, own string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if _, err := i.ready(); err != nil {
			i.fail(w, r, err)
			return
		}
		base := i.base(r)
		if base == "" {
			refuse(w, http.StatusBadRequest, "invalid_request", "the Host header of the request is invalid")
			return
		}
		realm := "/realms/" + url.PathEscape(r.PathValue("realm"))
		d := document{
			Issuer:            base + own,
			TokenEndpoint:     base + own + "/token",
			JWKSURI:           base + own + "/jwks",
			ResponseTypes:     []string{"token"},
			SubjectTypes:      []string{"public"},
			SigningAlgorithms: []string{"ES256"},
			GrantTypes:        []string{"client_credentials"},
			ClientAuth:        []string{"client_secret_basic", "client_secret_post"},
			Scopes:            []string{scope},
		}
		switch {
		case own == "":
			d.Issuer = base + strings.ReplaceAll(pattern, "/realms/{realm}", realm)
			d.TokenEndpoint = base + realm + "/protocol/openid-connect/token"
			d.JWKSURI = base + realm + "/protocol/openid-connect/certs"
		case i.url != nil:
			d.Issuer = i.url.String()
			d.TokenEndpoint, d.JWKSURI = d.Issuer+"/token", d.Issuer+"/jwks"
		}
		answer(w, http.StatusOK, d)
	}
}

// jwks responds with the public keys of past, current and future signing keys that have not
// retired.
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
	_ = json.NewEncoder(w).Encode(body) // the client has disconnected
}
