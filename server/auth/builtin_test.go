package auth

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"google.golang.org/protobuf/types/known/timestamppb"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// signer is a key of an issuer.
type signer struct {
	id  string
	key *ecdsa.PrivateKey
}

func newSigner(t testing.TB, id string) *signer {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return &signer{id: id, key: k}
}

func (s *signer) jwk() jose.JSONWebKey {
	return jose.JSONWebKey{Key: s.key.Public(), KeyID: s.id, Algorithm: string(jose.ES256), Use: "sig"}
}

// record returns the key as the FSM stores it.
func (s *signer) record(t testing.TB) *internalv1.SigningKey {
	t.Helper()
	b, err := json.Marshal(s.jwk())
	if err != nil {
		t.Fatal(err)
	}
	return &internalv1.SigningKey{KeyId: s.id, PublicJwk: b}
}

// sign returns a signed token with the claims.
func (s *signer) sign(t testing.TB, claims any) string {
	t.Helper()
	js, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: s.key, KeyID: s.id}},
		(&jose.SignerOptions{}).WithType("at+jwt"))
	if err != nil {
		t.Fatal(err)
	}
	token, err := jwt.Signed(js).Claims(claims).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func accessClaims(change func(*AccessClaims)) *AccessClaims {
	c := &AccessClaims{TokenID: "t1", Claims: jwt.Claims{
		Issuer: "https://n1:7401", Subject: "tools", Audience: jwt.Audience{AccessAudience},
		Expiry: jwt.NewNumericDate(time.Now().Add(time.Hour)),
	}}
	if change != nil {
		change(c)
	}
	return c
}

func TestBuiltInIssuer(t *testing.T) {
	ours, other, retired := newSigner(t, "k1"), newSigner(t, "k1"), newSigner(t, "k0")
	good := ours.sign(t, accessClaims(nil))
	head, rest, _ := strings.Cut(good, ".")
	none := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none","kid":"k1"}`)) + "." +
		strings.Split(rest, ".")[0] + "."
	hmac, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.HS256, Key: []byte(strings.Repeat("x", 32))},
		(&jose.SignerOptions{}).WithHeader("kid", "k1"))
	if err != nil {
		t.Fatal(err)
	}
	symmetric, err := jwt.Signed(hmac).Claims(accessClaims(nil)).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, token, reason string
	}{
		{"good", good, ""},
		{"signed by another issuer", other.sign(t, accessClaims(nil)), ReasonTokenInvalid},
		{"not signed", none, ReasonTokenInvalid},
		{"signed with a shared secret", symmetric, ReasonTokenInvalid},
		{"changed", head + "." + strings.Split(ours.sign(t, accessClaims(func(c *AccessClaims) { c.TokenID = "t2" })),
			".")[1] + "." + strings.Split(good, ".")[2], ReasonTokenInvalid},
		{"expired", ours.sign(t,
			accessClaims(func(c *AccessClaims) { c.Expiry = jwt.NewNumericDate(time.Now().Add(-time.Minute)) })),
			ReasonTokenExpired},
		{"without an end", ours.sign(t, accessClaims(func(c *AccessClaims) { c.Expiry = nil })), ReasonTokenInvalid},
		{"not yet", ours.sign(t,
			accessClaims(func(c *AccessClaims) { c.NotBefore = jwt.NewNumericDate(time.Now().Add(time.Hour)) })),
			ReasonTokenEarly},
		{"for others", ours.sign(t, accessClaims(func(c *AccessClaims) { c.Audience = jwt.Audience{"other"} })),
			ReasonTokenInvalid},
		{"without an audience", ours.sign(t, accessClaims(func(c *AccessClaims) { c.Audience = nil })), ReasonTokenInvalid},
		{"no client", ours.sign(t, accessClaims(func(c *AccessClaims) { c.TokenID = "" })), ReasonTokenInvalid},
		{"deleted client", ours.sign(t, accessClaims(func(c *AccessClaims) { c.TokenID = "t9" })),
			ReasonTokenUnknown},
		{"revoked client", ours.sign(t, accessClaims(func(c *AccessClaims) { c.TokenID = "t3" })),
			ReasonTokenRevoked},
		{"by a key that has retired", retired.sign(t, accessClaims(nil)), ReasonTokenExpired},
		{"unknown key", newSigner(t, "k7").sign(t, accessClaims(nil)), ReasonTokenUnknown},
		{"garbage", "a.b.c", ReasonBadCredentials},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := &fakeRecords{}
			g := newGate(t, f, Config{})
			f.issue(&holdfastv1.Token{TokenId: "t1", Name: "tools", Role: holdfastv1.Role_SERVICE})
			f.issue(&holdfastv1.Token{TokenId: "t2", Name: "root", Role: holdfastv1.Role_ADMIN})
			f.issue(&holdfastv1.Token{TokenId: "t3", Name: "old", Role: holdfastv1.Role_SERVICE, RevokedAt: past(time.Hour)})
			old := retired.record(t)
			old.RetiresAt = past(time.Minute)
			f.local.keys = []*internalv1.SigningKey{old, ours.record(t)}
			f.leader.keys = f.local.keys
			c, err := g.identify(context.Background(), &presented{source: "10.0.0.1", bearer: []string{"Bearer " + tt.token}})
			if got := reasonOf(err); got != tt.reason {
				t.Fatalf("got %q (%v), want %q", got, err, tt.reason)
			}
			if err == nil && (c.Identity.GetPrincipal() != "service:tools" || c.Identity.GetTokenId() != "t1" ||
				c.Identity.GetMethod() != MethodOIDC) {
				t.Errorf("got %v", c.Identity)
			}
		})
	}
}

// TestKeyOfAnotherPeer checks that a key just created by another peer is found.
func TestKeyOfAnotherPeer(t *testing.T) {
	f, ours := &fakeRecords{}, newSigner(t, "k1")
	g := newGate(t, f, Config{})
	f.issue(&holdfastv1.Token{TokenId: "t1", Name: "tools", Role: holdfastv1.Role_SERVICE})
	f.leader.keys = []*internalv1.SigningKey{ours.record(t)}
	f.behind()
	c, err := g.identify(context.Background(),
		&presented{source: "10.0.0.1", bearer: []string{ours.sign(t, accessClaims(nil))}})
	if err != nil || c.Identity.GetPrincipal() != "service:tools" {
		t.Fatalf("got %v, %v", c, err)
	}
}

func FuzzAccessToken(f *testing.F) {
	s := newSigner(f, "k1")
	records := &fakeRecords{}
	g := newGate(f, records, Config{})
	records.issue(&holdfastv1.Token{TokenId: "t1", Name: "tools", Role: holdfastv1.Role_SERVICE,
		ExpiresAt: timestamppb.New(time.Now().Add(time.Hour))})
	records.local.keys = []*internalv1.SigningKey{s.record(f)}
	good := s.sign(f, accessClaims(nil))
	f.Add(good)
	f.Add("e30.e30.")
	f.Add(`eyJraWQiOiJrMSJ9.eyJpc3MiOm51bGx9.AA`)
	f.Fuzz(func(t *testing.T, token string) {
		id, _, _, err := g.accessToken(context.Background(), token, "fuzz")
		if err == nil && token != good {
			// ECDSA signatures and base64 have one spelling each here; another token was
			// never signed.
			t.Fatalf("%q: got %v, want a refusal", token, id)
		}
	})
}
