package auth

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/internal/secrets"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// fakeRecords is the state of this peer and the state of the leader.
type fakeRecords struct {
	mu          sync.Mutex
	local       records
	leader      records
	reads       int // linearizable reads
	readErr     error
	reported    []*holdfastv1.AuditEvent
	reportCalls int
	reportErr   error
}

type records struct {
	tokens []*internalv1.StoredToken
	keys   []*internalv1.SigningKey
}

func (r records) TokenByHash(sum []byte) (*holdfastv1.Token, bool) {
	for _, t := range r.tokens {
		if slices.Equal(t.GetSha256(), sum) {
			return t.GetToken(), true
		}
	}
	return nil, false
}

func (r records) Token(id string) (*holdfastv1.Token, bool) {
	for _, t := range r.tokens {
		if t.GetToken().GetTokenId() == id {
			return t.GetToken(), true
		}
	}
	return nil, false
}

func (r records) SigningKeys() []*internalv1.SigningKey { return r.keys }

// TokensMark returns a new value each time, because tests change tokens in place.
func (r records) TokensMark() any { return new(int) }

// issue stores a token and returns its value.
func (f *fakeRecords) issue(tok *holdfastv1.Token) string {
	secret, hash := secrets.NewToken()
	stored := &internalv1.StoredToken{Token: tok, Sha256: hash}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.leader.tokens = append(f.leader.tokens, stored)
	f.local.tokens = append(f.local.tokens, stored)
	return secret
}

// behind makes this peer's state lag behind the leader's.
func (f *fakeRecords) behind() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.local = records{}
}

func (f *fakeRecords) deps() Deps {
	return Deps{
		Records: func() Records {
			f.mu.Lock()
			defer f.mu.Unlock()
			local := f.local
			return &local
		},
		Fresh: func(context.Context) (Records, error) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.reads++
			leader := f.leader
			return &leader, f.readErr
		},
		Report: func(_ context.Context, d *internalv1.RecordDenials) error {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.reportCalls++
			if f.reportErr != nil {
				return f.reportErr
			}
			f.reported = append(f.reported, d.GetEvents()...)
			return nil
		},
	}
}

func (f *fakeRecords) events() []*holdfastv1.AuditEvent {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.reported)
}

func newGate(t testing.TB, f *fakeRecords, cfg Config) *Gate {
	t.Helper()
	cfg.PeerID, cfg.Cluster = "n1", "c1"
	g, err := New(cfg, f.deps())
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// reasonOf returns the reason of a refusal, or the text of another error.
func reasonOf(err error) string {
	if err == nil {
		return ""
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Reason
	}
	return err.Error()
}

func past(d time.Duration) *timestamppb.Timestamp { return timestamppb.New(time.Now().Add(-d)) }
