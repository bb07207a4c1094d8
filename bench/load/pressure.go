package load

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"
)

// Pressure is a closed loop: each connection sends the next keepalive as soon as the last one is
// answered.
type Pressure struct {
	Target
	wires  []*Wire
	groups [][]Agent // one for each connection
	turn   []int     // index of the next agent of a group
}

// NewPressure connects, and distributes the agents among the connections.
func NewPressure(ctx context.Context, t Target, conns int, agents []Agent) (*Pressure, error) {
	l := &Pressure{Target: t, groups: make([][]Agent, conns), turn: make([]int, conns)}
	for i, a := range agents {
		l.groups[i%conns] = append(l.groups[i%conns], a)
	}
	for range conns {
		w, err := t.Dial(ctx)
		if err != nil {
			l.Close()
			return nil, err
		}
		l.wires = append(l.wires, w)
	}
	return l, nil
}

// Close ends the connections.
func (l *Pressure) Close() {
	for _, w := range l.wires {
		w.Close()
	}
}

// Run sends keepalives for a time and returns their latencies. A response other than 200 ends it,
// because figures with errors mean nothing.
func (l *Pressure) Run(ctx context.Context, d time.Duration) ([]time.Duration, error) {
	all := make([][]time.Duration, len(l.wires))
	g, ctx := errgroup.WithContext(ctx)
	end := time.Now().Add(d)
	for i, w := range l.wires {
		g.Go(func() (err error) {
			all[i], err = l.drive(ctx, i, w, end)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	var latencies []time.Duration
	for _, some := range all {
		latencies = append(latencies, some...)
	}
	return latencies, nil
}

func (l *Pressure) drive(ctx context.Context, i int, w *Wire, end time.Time) ([]time.Duration, error) {
	var latencies []time.Duration
	var request, body []byte
	group := l.groups[i]
	for began := time.Now(); began.Before(end); {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		a := group[l.turn[i]%len(group)]
		l.turn[i]++
		request = a.Keepalive(request, l.Addr)
		status, answer, err := w.Call(request, body)
		if err != nil || status != http.StatusOK {
			return nil, fmt.Errorf("keepalive of %s to %s: %w", a.ID, l.Addr, Wrong(status, answer, err))
		}
		body = answer
		now := time.Now()
		latencies = append(latencies, now.Sub(began))
		began = now
	}
	return latencies, nil
}
