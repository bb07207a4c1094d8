package auth

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

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
