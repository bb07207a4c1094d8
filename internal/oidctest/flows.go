package oidctest

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"maps"
	"net/http"
	"net/url"
	"strings"
)

// UserCode is the code that the device flow shows.
const UserCode = "ABCD-EFGH"

// authorize returns the browser to the client, with a code or an error.
func (p *Provider) authorize(w http.ResponseWriter, r *http.Request) {
	q, s := r.URL.Query(), p.get()
	back, err := url.Parse(q.Get("redirect_uri"))
	if err != nil || q.Get("client_id") != s.ClientID || q.Get("response_type") != "code" ||
		q.Get("code_challenge_method") != "S256" || !strings.Contains(q.Get("scope"), "openid") {
		http.Error(w, "invalid_request", http.StatusBadRequest)
		return
	}
	out := url.Values{"state": {q.Get("state")}}
	if s.Deny != "" {
		out.Set("error", s.Deny)
		out.Set("error_description", "not today")
	} else {
		code := rand.Text()
		p.mu.Lock()
		p.codes[code] = q
		p.mu.Unlock()
		out.Set("code", code)
	}
	back.RawQuery = out.Encode()
	http.Redirect(w, r, back.String(), http.StatusFound) //nolint:gosec // a test has no other users
}

func (p *Provider) device(w http.ResponseWriter, r *http.Request) {
	if r.FormValue("client_id") != p.get().ClientID {
		answer(w, http.StatusBadRequest, map[string]string{"error": "invalid_client"})
		return
	}
	answer(w, http.StatusOK, map[string]any{"device_code": "device", "user_code": UserCode,
		"verification_uri": p.URL + "/activate", "verification_uri_complete": p.URL + "/activate?user_code=" + UserCode,
		"expires_in": 600, "interval": 1})
}

func (p *Provider) token(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	p.mu.Lock()
	p.last = r.PostForm
	p.mu.Unlock()
	s := p.get()
	id, secret, ok := r.BasicAuth()
	if !ok {
		id, secret = r.PostForm.Get("client_id"), r.PostForm.Get("client_secret")
	}
	refused := func(code string) { answer(w, http.StatusBadRequest, map[string]string{"error": code}) }
	if id != s.ClientID || secret != s.ClientSecret {
		answer(w, http.StatusUnauthorized, map[string]string{"error": "invalid_client"})
		return
	}
	switch r.PostForm.Get("grant_type") {
	case "authorization_code":
		nonce, good := p.redeem(r.PostForm)
		if !good || s.Expired {
			refused("invalid_grant")
			return
		}
		p.issue(w, s, nonce)
	case "refresh_token":
		if !p.rotate(r.PostForm.Get("refresh_token")) || s.NoRefresh {
			refused("invalid_grant")
			return
		}
		p.issue(w, s, "")
	default:
		p.poll(w, s, refused)
	}
}

// redeem uses up a code, and returns the nonce of its request.
func (p *Provider) redeem(form url.Values) (string, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	q, ok := p.codes[form.Get("code")]
	delete(p.codes, form.Get("code"))
	sum := sha256.Sum256([]byte(form.Get("code_verifier")))
	ok = ok && base64.RawURLEncoding.EncodeToString(sum[:]) == q.Get("code_challenge") &&
		form.Get("redirect_uri") == q.Get("redirect_uri")
	return q.Get("nonce"), ok
}

// rotate uses up a refresh token.
func (p *Provider) rotate(token string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	known := p.refresh[token]
	delete(p.refresh, token)
	return known
}

// poll answers a device.
func (p *Provider) poll(w http.ResponseWriter, s Settings, refused func(string)) {
	switch {
	case s.Deny != "":
		refused(s.Deny)
	case s.Expired:
		refused("expired_token")
	case s.Pending > 0:
		p.Set(func(s *Settings) { s.Pending-- })
		refused("authorization_pending")
	default:
		p.issue(w, s, "")
	}
}

// issue answers with new tokens.
func (p *Provider) issue(w http.ResponseWriter, s Settings, nonce string) {
	access := "opaque-" + rand.Text()
	if s.Audience != "" {
		access = p.Sign(s.Audience, nil)
	}
	if s.Nonce != "" {
		nonce = s.Nonce
	}
	more := map[string]any{}
	maps.Copy(more, s.IDClaims)
	if nonce != "" {
		more["nonce"] = nonce
	}
	if s.AtHash != "" {
		more["at_hash"] = s.AtHash
	}
	refresh := rand.Text()
	p.mu.Lock()
	p.refresh[refresh] = true
	p.mu.Unlock()
	lifetime := s.Lifetime.Seconds()
	if lifetime == 0 {
		lifetime = 3600
	}
	answer(w, http.StatusOK, map[string]any{"access_token": access, "token_type": "Bearer", "expires_in": int(lifetime),
		"id_token": p.Sign(s.ClientID, more), "refresh_token": refresh})
}
