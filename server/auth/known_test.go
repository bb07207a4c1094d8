package auth

import (
	"crypto/sha256"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// TestKnownToken checks that a token is looked up once until any token changes, and that
// its revocation or expiry counts at once.
func TestKnownToken(t *testing.T) {
	f := &fakeRecords{}
	tok := &holdfastv1.Token{TokenId: "tok-1", Role: holdfastv1.Role_AGENT, MachineId: "m-1",
		ExpiresAt: timestamppb.New(time.Now().Add(time.Hour))}
	secret := f.issue(tok)
	state := &countedRecords{records: f.local}
	deps := f.deps()
	deps.Records = func() Records { return state }
	g, err := New(Config{PeerID: "n1", RatePerSecond: -1}, deps)
	if err != nil {
		t.Fatal(err)
	}
	ask := func() string {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/x", nil)
		r.Header.Set("Authorization", "Bearer "+secret)
		p := g.fromHTTP(r, "POST /x")
		c, err := g.identify(t.Context(), &p)
		if err == nil && c.Identity.GetPrincipal() != "agent:m-1" {
			t.Errorf("got %v", c.Identity)
		}
		return reasonOf(err)
	}
	for range 3 {
		if got := ask(); got != "" {
			t.Fatalf("got %s", got)
		}
	}
	if state.lookups != 1 {
		t.Errorf("got %d reads of the same tokens, want 1", state.lookups)
	}
	g.now = func() time.Time { return time.Now().Add(2 * time.Hour) }
	if got := ask(); got != ReasonTokenExpired {
		t.Errorf("after the expiry: got %q, want %s", got, ReasonTokenExpired)
	}
	g.now = time.Now
	before := state
	tok.RevokedAt = timestamppb.Now()
	state = &countedRecords{records: f.local}
	if got := ask(); got != ReasonTokenRevoked || state.lookups != 1 {
		t.Errorf("revoked in the next state: got %q after %d reads, want %s", got, state.lookups, ReasonTokenRevoked)
	}
	state, tok.RevokedAt = before, nil
	for i := range maxKnown + 10 {
		g.known.put(sha256.Sum256([]byte{byte(i), byte(i >> 8), byte(i >> 16)}),
			knownCaller{seen: seen{in: state.TokensMark()}})
	}
	if got := ask(); got != "" {
		t.Fatalf("got %s", got)
	}
	if n := len(g.known.callers); n > maxKnown {
		t.Errorf("got %d remembered tokens, want at most %d", n, maxKnown)
	}
}

// countedRecords counts the lookups of tokens.
type countedRecords struct {
	records
	lookups int
}

func (c *countedRecords) TokenByHash(sum []byte) (*holdfastv1.Token, bool) {
	c.lookups++
	return c.records.TokenByHash(sum)
}

// TokensMark implements Records.
func (c *countedRecords) TokensMark() any { return c }
