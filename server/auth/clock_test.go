package auth

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// TestWrongClockExpiresNoToken checks that credentials expire by the cluster's time: a peer whose
// own clock is wrong refuses no valid one and accepts no expired one.
func TestWrongClockExpiresNoToken(t *testing.T) {
	for _, tt := range []struct {
		name        string
		wrong, ends time.Duration // the host's clock, and the end of the token, compared with the cluster's time
		want        string
	}{
		{"ahead, valid", 365 * 24 * time.Hour, time.Hour, ""},
		{"ahead, expired", 365 * 24 * time.Hour, -time.Hour, ReasonTokenExpired},
		{"behind, valid", -24 * time.Hour, time.Hour, ""},
		{"behind, expired", -24 * time.Hour, -time.Hour, ReasonTokenExpired},
	} {
		cluster := time.Now().Add(-tt.wrong)
		f := &fakeRecords{}
		secret := f.issue(&holdfastv1.Token{TokenId: "t-1", Name: "t", Role: holdfastv1.Role_VIEWER,
			ExpiresAt: timestamppb.New(cluster.Add(tt.ends))})
		g, err := New(Config{PeerID: "n1", Cluster: "c1", Now: func() time.Time { return cluster }}, f.deps())
		if err != nil {
			t.Fatal(err)
		}
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/x", nil)
		r.Header.Set("Authorization", "Bearer "+secret)
		p := g.fromHTTP(r, "POST /x")
		if _, err := g.identify(t.Context(), &p); reasonOf(err) != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, reasonOf(err), tt.want)
		}
	}
}

// TestDoubtfulClock checks that a peer which cannot judge the time refuses no credential for its
// time, and accepts none: the call may be repeated, because its outcome depends on the clock alone.
func TestDoubtfulClock(t *testing.T) {
	key := newSigner(t, "a")
	p := newIDP(t, key)
	const day = 24 * time.Hour
	for _, tt := range []struct {
		name     string
		behind   time.Duration // the peer's time, compared with the issuer's
		doubtful bool
		claims   map[string]any
		code     codes.Code
		want     string
	}{
		{"issued after its time", day, true, nil, codes.Unavailable, ReasonClockUnknown},
		{"issued after its time, without a doubt", day, false, nil, codes.Unauthenticated, ReasonTokenEarly},
		{"begins after its time", day, true, map[string]any{"iat": nil, "nbf": time.Now().Unix()}, codes.Unavailable,
			ReasonClockUnknown},
		{"expired by its time", -day, true, nil, codes.Unavailable, ReasonClockUnknown},
		{"expired by its time, without a doubt", -day, false, nil, codes.Unauthenticated, ReasonTokenExpired},
		{"for others", day, true, map[string]any{"aud": "x"}, codes.Unauthenticated, ReasonTokenInvalid},
		{"valid", 0, true, nil, codes.OK, ""},
	} {
		g := newGate(t, &fakeRecords{}, Config{Issuers: []Issuer{{URL: p.URL, Audience: "holdfast-dc1"}},
			Now:      func() time.Time { return time.Now().Add(-tt.behind) },
			Doubtful: func() bool { return tt.doubtful }})
		_, err := g.admit(t.Context(), &presented{source: "10.0.0.1",
			bearer: []string{"Bearer " + key.sign(t, p.claims(tt.claims))}}, true)
		if reasonOf(err) != tt.want || status.Code(err) != tt.code {
			t.Errorf("%s: got %v %q (%v), want %v %q", tt.name, status.Code(err), reasonOf(err), err, tt.code, tt.want)
		}
	}
}

// TestDoubtfulClockOfEachCredential checks the same for all credentials that end.
func TestDoubtfulClockOfEachCredential(t *testing.T) {
	f := &fakeRecords{}
	secret := f.issue(&holdfastv1.Token{TokenId: "t-1", Name: "t", Role: holdfastv1.Role_SERVICE,
		ExpiresAt: past(time.Hour)})
	g := newGate(t, f, Config{Doubtful: func() bool { return true }})
	bearer := &presented{source: "10.0.0.1", bearer: []string{"Bearer " + secret}}
	certificate := &presented{source: "10.0.0.1", certError: unauthenticated(ReasonCertificateExpired, "expired")}
	for name, call := range map[string]func() error{
		"a token": func() error {
			_, err := g.admit(t.Context(), bearer, true)
			return err
		},
		"a client's secret": func() error {
			_, err := g.Client(t.Context(), "t-1", secret, "10.0.0.1:1", "token")
			return err
		},
		"a certificate": func() error {
			_, err := g.admit(t.Context(), certificate, true)
			return err
		},
		"a stream": func() error {
			_, err := g.recheck(&Caller{Identity: &holdfastv1.Identity{TokenId: "t-1"}, gate: g}, seen{})
			return err
		},
	} {
		if err := call(); reasonOf(err) != ReasonClockUnknown || status.Code(err) != codes.Unavailable {
			t.Errorf("%s: got %v %q, want Unavailable", name, status.Code(err), reasonOf(err))
		}
	}
}
