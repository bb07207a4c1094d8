package login

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/oauth2"
)

// with returns the sign-in with the tokens of an issuer's answer. The token for the cluster is
// the access token if it is a JWT for the cluster's audience, and otherwise the ID token. Nothing
// is verified here: peers do that.
func (v Saved) with(t *oauth2.Token) (Saved, error) {
	id, _ := t.Extra("id_token").(string)
	for _, token := range []string{t.AccessToken, id} {
		c, ok := claimsOf(token)
		if !ok || !slices.Contains(c.Audience, v.Audience) {
			continue
		}
		v.Token, v.Expires = token, time.Unix(int64(c.Expires), 0)
		if t.RefreshToken != "" {
			v.Refresh = t.RefreshToken
		}
		return v, nil
	}
	return v, fmt.Errorf("the tokens of %s are not for this cluster: none is a JWT with the audience %q: "+
		"add it to the client %s there (the page Sign-in of the documentation)", v.Issuer, v.Audience, v.ClientID)
}

// claims are the claims of a token that the command line needs.
type claims struct {
	Audience audience `json:"aud"`
	Expires  float64  `json:"exp"`
}

// audience is one text or a list.
type audience []string

// UnmarshalJSON implements json.Unmarshaler.
func (a *audience) UnmarshalJSON(b []byte) error {
	var one string
	if json.Unmarshal(b, &one) == nil {
		*a = audience{one}
		return nil
	}
	return json.Unmarshal(b, (*[]string)(a))
}

// claimsOf returns the claims of a JWT; ok is false if it is none.
func claimsOf(token string) (c claims, ok bool) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return c, false
	}
	b, err := base64.RawURLEncoding.DecodeString(parts[1])
	return c, err == nil && json.Unmarshal(b, &c) == nil
}
