package contest

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

func TestCalls(t *testing.T) {
	broken := errors.New("broken")
	for _, tt := range []struct {
		name string
		last error // of the fifth and later calls
		want int
		err  error
	}{
		{"no work left", ErrEnough, 4, nil},
		{"failure", broken, 0, broken},
	} {
		var n atomic.Int64
		c, err := NewCalls(3, insecure.NewCredentials(), []string{"127.0.0.1:1"},
			func(context.Context, grpc.ClientConnInterface) error {
				if n.Add(1) > 4 {
					return tt.last
				}
				return nil
			})
		if err != nil {
			t.Fatal(err)
		}
		latencies, err := c.Run(t.Context(), time.Minute)
		if len(latencies) != tt.want || !errors.Is(err, tt.err) {
			t.Errorf("%s: got %d calls, %v, want %d, %v", tt.name, len(latencies), err, tt.want, tt.err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestContenderRate checks that clients that end early do not lower the rate when operations are
// long.
func TestContenderRate(t *testing.T) {
	// Two clients and a slice of 2 s: one ends after 2 s with two operations, the other after 3 s
	// with one.
	latencies, took := []time.Duration{time.Second, time.Second, 3 * time.Second}, 3*time.Second
	for _, tt := range []struct {
		clients int
		want    float64
	}{{0, 1}, {2, 1.2}} {
		if got := (&Contender{Clients: tt.clients}).rate(latencies, took); got != tt.want {
			t.Errorf("%d clients: got %v, want %v", tt.clients, got, tt.want)
		}
	}
}
