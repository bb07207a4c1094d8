package auth

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/internal/secrets"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

func TestParseBearer(t *testing.T) {
	long := strings.Repeat("a", maxToken+1)
	for _, tt := range []struct {
		values []string
		want   string
		bad    bool
	}{
		{nil, "", false},
		{[]string{""}, "", false},
		{[]string{"Bearer"}, "", false},
		{[]string{"Bearer "}, "", false},
		{[]string{"Bearer abc"}, "abc", false},
		{[]string{"bearer   abc "}, "abc", false},
		{[]string{"BEARER abc"}, "abc", false},
		{[]string{"abc-_="}, "abc-_=", false}, // existing agents omit the scheme
		{[]string{"Basic dXNlcjpwYXNz"}, "", true},
		{[]string{"Bearer a b"}, "", true},
		{[]string{"Bearer a\x00"}, "", true},
		{[]string{"a", "b"}, "", true},
		{[]string{long}, "", true},
		{[]string{"a." + long + ".c"}, "a." + long + ".c", false},
		{[]string{"a." + strings.Repeat("b", maxJWT) + ".c"}, "", true},
	} {
		got, err := parseBearer(tt.values)
		if got != tt.want || (err != nil) != tt.bad {
			t.Errorf("%.40q: got %.40q, %v", tt.values, got, err)
		}
		if err != nil && (strings.Contains(err.Message, "dXNlcjpwYXNz") || strings.Contains(err.Message, long)) {
			t.Errorf("got the sent value in the error: %.80s", err.Message)
		}
	}
}

func FuzzBearer(f *testing.F) {
	for _, s := range []string{"Bearer abc", "abc", "Basic x", "Bearer a.b.c", " \t", "bearer\tx"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, header string) {
		token, err := parseBearer([]string{header})
		if err != nil && token != "" {
			t.Fatalf("got %q and %v", token, err)
		}
		if strings.ContainsAny(token, " \t\r\n") || !strings.Contains(header, token) {
			t.Fatalf("%q: got %q", header, token)
		}
	})
}

func TestToken(t *testing.T) {
	for _, tt := range []struct {
		name   string
		token  *holdfastv1.Token
		want   *holdfastv1.Identity
		reason string
	}{
		{"operator", &holdfastv1.Token{TokenId: "t1", Name: "ci", Role: holdfastv1.Role_OPERATOR, Pools: []string{"a"}},
			&holdfastv1.Identity{Principal: "token:ci", Role: holdfastv1.Role_OPERATOR, Pools: []string{"a"}, TokenId: "t1",
				Method: MethodToken}, ""},
		{"agent", &holdfastv1.Token{TokenId: "t2", Name: "x", Role: holdfastv1.Role_AGENT, MachineId: "m-1"},
			&holdfastv1.Identity{Principal: "agent:m-1", Role: holdfastv1.Role_AGENT, MachineId: "m-1", TokenId: "t2",
				Method: MethodToken}, ""},
		{"pool", &holdfastv1.Token{TokenId: "t3", Name: "x", Role: holdfastv1.Role_POOL_AGENT, Pools: []string{"gpu"}},
			&holdfastv1.Identity{Principal: "pool:gpu", Role: holdfastv1.Role_POOL_AGENT, Pools: []string{"gpu"},
				TokenId: "t3", Method: MethodToken}, ""},
		{"service", &holdfastv1.Token{TokenId: "t4", Name: "tools", Role: holdfastv1.Role_SERVICE,
			ExpiresAt: timestamppb.New(time.Now().Add(time.Hour))},
			&holdfastv1.Identity{Principal: "service:tools", Role: holdfastv1.Role_SERVICE, TokenId: "t4",
				Method: MethodToken}, ""},
		{"revoked", &holdfastv1.Token{TokenId: "t5", Role: holdfastv1.Role_ADMIN, RevokedAt: past(time.Hour)}, nil,
			ReasonTokenRevoked},
		{"expired", &holdfastv1.Token{TokenId: "t6", Role: holdfastv1.Role_ADMIN, ExpiresAt: past(time.Second)}, nil,
			ReasonTokenExpired},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := &fakeRecords{}
			g := newGate(t, f, Config{})
			secret := f.issue(tt.token)
			c, err := g.identify(context.Background(), &presented{source: "10.0.0.1", bearer: []string{"Bearer " + secret}})
			if got := reasonOf(err); got != tt.reason {
				t.Fatalf("got %q, want %q", got, tt.reason)
			}
			var got *holdfastv1.Identity
			if c != nil {
				got = c.Identity
			}
			if diff := cmp.Diff(tt.want, got, protocmp.Transform()); diff != "" {
				t.Error(diff)
			}
			if err != nil && strings.Contains(err.Error(), secret) {
				t.Error("got the token in the error")
			}
		})
	}
}

// TestLinearizableLookup checks that a token just created on another peer is accepted, and that
// unknown tokens cause few reads.
func TestLinearizableLookup(t *testing.T) {
	f := &fakeRecords{}
	g := newGate(t, f, Config{})
	secret := f.issue(&holdfastv1.Token{TokenId: "t1", Name: "new", Role: holdfastv1.Role_VIEWER})
	f.behind()
	who := func(token, source string) (*Caller, error) {
		return g.identify(context.Background(), &presented{source: source, bearer: []string{token}})
	}
	if c, err := who(secret, "10.0.0.1"); err != nil || c.Identity.GetPrincipal() != "token:new" || f.reads != 1 {
		t.Fatalf("got %v, %v after %d reads", c, err, f.reads)
	}
	// The same unknown token is looked up once.
	for range 100 {
		if _, err := who("garbage", "10.0.0.2"); reasonOf(err) != ReasonTokenUnknown {
			t.Fatal(err)
		}
	}
	if f.reads != 2 {
		t.Errorf("got %d reads for the same unknown token", f.reads-1)
	}
	// Different unknown tokens are limited, per source.
	reasons := map[string]int{}
	for i := range 500 {
		_, err := who(fmt.Sprint("garbage", i), "10.0.0.3")
		reasons[reasonOf(err)]++
	}
	if n := f.reads - 2; n < lookupsBurst || n > 2*lookupsBurst || reasons[ReasonRateLimit] < 400 {
		t.Errorf("got %d reads, answers %v", n, reasons)
	}
	if _, err := who(secret, "10.0.0.4"); err != nil {
		t.Errorf("other caller: %v", err)
	}
	// A failed read is not a refusal.
	f.readErr = errors.New("no leader")
	if _, err := who("other", "10.0.0.5"); reasonOf(err) != "no leader" {
		t.Errorf("got %v", err)
	}
}

// TestSecrets checks the format of tokens: 64 random bytes in base64url (docs/clients.md,
// 000).
func TestSecrets(t *testing.T) {
	a, hash := secrets.NewToken()
	b, _ := secrets.NewToken()
	if len(a) != 86 || a == b || !bytes.Equal(hash, sum(a)) || isJWT(a) {
		t.Errorf("got %d characters", len(a))
	}
	if got, err := parseBearer([]string{"Bearer " + a}); got != a || err != nil {
		t.Errorf("parse the token of a header: %v", err)
	}
}
