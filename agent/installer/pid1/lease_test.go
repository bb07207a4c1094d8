package pid1

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// server is a DHCP server that records its requests.
type server struct {
	start    time.Time
	renew    time.Duration // the time until the renewal; 0: no address
	again    time.Duration
	silentTo time.Duration // it does not answer before that
	asked    []string
}

func (s *server) answer(ctx context.Context, what string, d time.Duration) (time.Duration, error) {
	at := time.Since(s.start)
	s.asked = append(s.asked, fmt.Sprintf("%s %s", what, at))
	if d == 0 || at < s.silentTo {
		return 0, errors.Join(errors.New("no answer"), ctx.Err())
	}
	return d, nil
}

func (s *server) Renew(ctx context.Context) (time.Duration, error) {
	return s.answer(ctx, "renew", s.renew)
}

func (s *server) Again(ctx context.Context) (time.Duration, error) {
	return s.answer(ctx, "again", s.again)
}

func TestLease(t *testing.T) {
	tests := []struct {
		name   string
		length time.Duration
		server server
		want   []string
	}{
		{"renewed after half of it", 10 * time.Minute, server{renew: 20 * time.Minute},
			[]string{"renew 5m0s", "renew 15m0s", "renew 25m0s"}},
		{"requested again when it is not renewed", 20 * time.Minute, server{again: 20 * time.Minute},
			[]string{"renew 10m0s", "again 10m0s", "renew 20m0s", "again 20m0s"}},
		{"server down for a while", 16 * time.Minute, server{renew: 40 * time.Minute, silentTo: 11 * time.Minute},
			[]string{"renew 8m0s", "again 8m0s", "renew 12m0s"}},
		{"server back after the end", 20 * time.Second, server{silentTo: 2 * time.Minute, renew: time.Hour},
			[]string{"renew 10s", "again 10s", "renew 15s", "again 15s", "renew 20s", "again 20s", "renew 1m20s",
				"again 1m20s", "renew 2m20s"}},
		{"lease without a duration", 0, server{renew: time.Hour}, []string{"renew 1m0s"}},
		{"unlimited", 0xffffffff * time.Second, server{}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 29*time.Minute)
				defer cancel()
				tt.server.start = time.Now()
				l := &Lease{from: &tt.server, length: tt.length, log: slog.New(slog.DiscardHandler)}
				if err := l.Run(ctx); err != nil {
					t.Error(err)
				}
				if diff := cmp.Diff(tt.want, tt.server.asked); diff != "" {
					t.Errorf("asked (-want +got):\n%s", diff)
				}
			})
		})
	}
	if err := (&Lease{}).Run(t.Context()); err != nil {
		t.Errorf("address without a lease: got %v", err)
	}
}
