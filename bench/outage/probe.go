// Package outage measures the outage of a cluster during an event, such as the death of its leader:
// the time until it answers again, and the longest time without an answer. It also makes load
// meanwhile.
//
// It owns the measurement. It must not cause the event or know the kind of the cluster.
package outage

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"

	"github.com/holdfast-metal/holdfast/internal/wait"
)

const (
	callTimeout   = 500 * time.Millisecond // of one call of a prober
	outageTimeout = 30 * time.Second       // maximum length of an outage
	calm          = 300 * time.Millisecond // measured before the event and after its end
)

// Now runs do and returns its begin and end.
func Now(do func() error) (Event, error) {
	at := Event{began: time.Now()}
	err := do()
	at.done = time.Now()
	return at, err
}

// success is an answered call.
type success struct{ began, ended time.Time }

// Prober calls each member of a cluster without a pause, like a client that knows all members.
type Prober struct {
	Addrs []string
	Creds credentials.TransportCredentials
	Call  func(context.Context, grpc.ClientConnInterface) error

	mu  sync.Mutex
	all []success
}

// Outage is the outage during an event.
type Outage struct {
	Back time.Duration // from the begin of the event to the first answer to a call that was made after its end
	Gap  time.Duration // the longest time without any answer
}

// Event has the times of the begin of an event, such as sending a signal, and of its end, such as
// the end of the process.
type Event struct{ began, done time.Time }

// Measure runs an event and measures until calls are answered again.
func (w *Prober) Measure(ctx context.Context, happen func() (Event, error)) (Outage, error) {
	ctx, stop := context.WithTimeout(ctx, outageTimeout)
	defer stop()
	w.all = nil
	asking, enough := context.WithCancel(ctx)
	var g errgroup.Group
	for _, addr := range w.Addrs {
		g.Go(func() error { return w.ask(asking, addr) })
	}
	var at Event
	err := func() (err error) {
		defer enough()
		if err := w.until(ctx, time.Now()); err != nil { // a member answers before the event
			return err
		}
		if err := wait.Sleep(ctx, calm); err != nil {
			return err
		}
		if at, err = happen(); err != nil {
			return err
		}
		if err := w.until(ctx, at.done); err != nil {
			return err
		}
		return wait.Sleep(ctx, calm)
	}()
	if err := errors.Join(err, g.Wait()); err != nil {
		return Outage{}, err
	}
	return w.outage(at), nil
}

// ask calls one member until ctx ends, and retries failed calls.
func (w *Prober) ask(ctx context.Context, addr string) (err error) {
	soon := grpc.ConnectParams{Backoff: backoff.Config{BaseDelay: 5 * time.Millisecond, Multiplier: 1.2,
		MaxDelay: 50 * time.Millisecond}, MinConnectTimeout: callTimeout}
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(w.Creds), grpc.WithConnectParams(soon))
	if err != nil {
		return fmt.Errorf("connect to %s: %w", addr, err)
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	for ctx.Err() == nil {
		s := success{began: time.Now()}
		call, stop := context.WithTimeout(ctx, callTimeout)
		err := w.Call(call, conn)
		stop()
		if err != nil {
			_ = wait.Sleep(ctx, time.Millisecond) // ctx has ended: so does the loop
			continue
		}
		s.ended = time.Now()
		w.mu.Lock()
		w.all = append(w.all, s)
		w.mu.Unlock()
	}
	return nil
}

// until waits for the answer to a call that began after a given time.
func (w *Prober) until(ctx context.Context, t time.Time) error {
	for {
		w.mu.Lock()
		seen := slices.ContainsFunc(w.all, func(s success) bool { return s.began.After(t) })
		w.mu.Unlock()
		if seen {
			return nil
		}
		if err := wait.Sleep(ctx, 5*time.Millisecond); err != nil {
			return fmt.Errorf("wait for an answer: %w", err)
		}
	}
}

// outage computes the outage from the answered calls.
func (w *Prober) outage(at Event) Outage {
	w.mu.Lock()
	defer w.mu.Unlock()
	slices.SortFunc(w.all, func(a, b success) int { return a.ended.Compare(b.ended) })
	var o Outage
	for i, s := range w.all {
		if i > 0 {
			o.Gap = max(o.Gap, s.ended.Sub(w.all[i-1].ended))
		}
		if o.Back == 0 && s.began.After(at.done) {
			o.Back = s.ended.Sub(at.began)
		}
	}
	return o
}
