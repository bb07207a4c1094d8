package signin

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
	"google.golang.org/grpc/codes"

	"github.com/holdfast-metal/holdfast/server/auth"
)

// Session is the result of a sign-in.
type Session struct {
	Token   string
	Expires time.Time
	Next    string // the page that the person wanted
}

// Finish finishes the sign-in of a cookie with the issuer's answer, which is the query of the
// request. An error is recorded in the audit trail. The session has the page that the person
// wanted in any case.
func (f *Flow) Finish(r *http.Request, cookie string) (Session, *auth.Error) {
	if len(f.issuers) == 0 {
		return Session{}, notBegun()
	}
	var st state
	b, ok := f.sealer.Unseal(use, cookie)
	if !ok || json.Unmarshal(b, &st) != nil {
		return Session{}, f.issuers[0].Failed(r, notBegun())
	}
	s := f.find(st.Issuer)
	if s == nil {
		return Session{Next: st.Next}, f.issuers[0].Failed(r, notBegun())
	}
	session, err := f.finish(r, s, st)
	session.Next = st.Next
	if err != nil {
		return session, s.Failed(r, err)
	}
	return session, nil
}

func notBegun() *auth.Error {
	return refuse(codes.Unauthenticated, auth.ReasonSignInState,
		"That sign-in was not begun in this browser, or it took longer than 10 minutes. Sign in again.")
}

// finish exchanges the code for tokens, and checks them.
func (f *Flow) finish(r *http.Request, s *auth.SignIn, st state) (Session, *auth.Error) {
	q, name := r.URL.Query(), s.Config().DisplayName
	if !same(q.Get("state"), st.State) || q.Has("iss") && q.Get("iss") != st.Issuer { // RFC 9207
		return Session{}, notBegun()
	}
	if q.Get("error") != "" {
		return Session{}, answered(name, q.Get("error"), q.Get("error_description"))
	}
	p, err := s.Provider(r.Context())
	if err != nil {
		return Session{}, err
	}
	t, err := exchange(r, s, p, st)
	if err != nil {
		return Session{}, err
	}
	raw, _ := t.Extra("id_token").(string)
	id, err := s.IDToken(r.Context(), p, raw)
	if err != nil {
		return Session{}, err
	}
	if !same(id.Nonce, st.Nonce) || id.AccessTokenHash != "" && id.VerifyAccessToken(t.AccessToken) != nil ||
		!s.SameSubject(id, t.AccessToken) {
		return Session{}, refuse(codes.Unauthenticated, auth.ReasonTokenInvalid,
			"The answer of "+name+" belongs to another sign-in. Sign in again.")
	}
	token := t.AccessToken
	if !s.ForUs(token) {
		token = raw
	}
	_, expires, err := s.Identify(r.Context(), token)
	return Session{Token: token, Expires: expires}, err
}

// exchange returns the tokens for a code.
func exchange(r *http.Request, s *auth.SignIn, p *oidc.Provider, st state) (*oauth2.Token, *auth.Error) {
	client, err := s.Client(r)
	if err != nil {
		return nil, err
	}
	c := config(s.Config(), p, st.Redirect)
	if c.ClientSecret, err = s.Secret(); err != nil {
		return nil, err
	}
	c.Endpoint.AuthStyle = style(p, c.ClientSecret)
	ctx := context.WithValue(r.Context(), oauth2.HTTPClient, client)
	t, failed := c.Exchange(ctx, r.URL.Query().Get("code"), oauth2.VerifierOption(st.Verifier))
	if failed == nil {
		return t, nil
	}
	name := s.Config().DisplayName
	refused, ok := errors.AsType[*oauth2.RetrieveError](failed)
	switch {
	case !ok:
		cause := errors.New("exchange the code of a sign-in: the token endpoint gave no valid answer")
		if u, is := errors.AsType[*url.Error](failed); is {
			cause = u // the code is in the body of the request, not in its URL
		}
		return nil, s.Unreachable(cause)
	case refused.ErrorCode == "invalid_grant":
		return nil, refuse(codes.Unauthenticated, auth.ReasonSignInRefused,
			"The sign-in with "+name+" has expired or was used before. Sign in again.")
	case refused.ErrorCode == "invalid_client" || refused.ErrorCode == "unauthorized_client":
		return nil, refuse(codes.Unauthenticated, auth.ReasonSignInRefused,
			name+" refuses this cluster's client. An admin checks client_id and client_secret_file.")
	case refused.ErrorCode == "":
		return nil, s.Unreachable(errors.New("exchange the code of a sign-in: status " + refused.Response.Status))
	}
	return nil, answered(name, refused.ErrorCode, "")
}

// style returns how the client authenticates to the token endpoint (OpenID Connect Discovery §3).
func style(p *oidc.Provider, secret string) oauth2.AuthStyle {
	var doc struct {
		Methods []string `json:"token_endpoint_auth_methods_supported"`
	}
	_ = p.Claims(&doc) // without the claim, the default applies
	if secret == "" || len(doc.Methods) > 0 && !slices.Contains(doc.Methods, "client_secret_basic") {
		return oauth2.AuthStyleInParams
	}
	return oauth2.AuthStyleInHeader
}

// answered returns the error for an issuer's error. Its code and description are shown to the
// person, and recorded nowhere.
func answered(name, code, description string) *auth.Error {
	text := name + " refused the sign-in"
	switch code {
	case "access_denied":
		text += ": you may not use this application, or you canceled"
	case "login_required", "interaction_required", "consent_required":
		text += ": it needs to ask you something first. Sign in again"
	case "temporarily_unavailable", "server_error":
		text += ": it has a failure. Try again in a minute"
	default:
		text += " (" + printable(code) + ")"
	}
	if d := strings.TrimRight(printable(description), ". "); d != "" {
		text += ". It says: " + d
	}
	return refuse(codes.Unauthenticated, auth.ReasonSignInRefused, text+".")
}

// printable returns the first characters of a text from the issuer.
func printable(s string) string {
	const most = 300
	s = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, ""))
	if runes := []rune(s); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return s
}

// same compares two secrets in constant time. An empty one equals nothing.
func same(a, b string) bool { return b != "" && subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }
