package bench

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
	witnessTimeout = 500 * time.Millisecond // of one call of a witness
	outageTimeout  = 30 * time.Second       // until it must be over
	calm           = 300 * time.Millisecond // watched before the event, and after it is over
)

// now does something and gives when.
func now(do func() error) (event, error) {
	at := event{began: time.Now()}
	err := do()
	at.done = time.Now()
	return at, err
}

// success is a call that was answered.
type success struct{ began, ended time.Time }

// witness asks members of a cluster, each one by itself, again as soon as it is answered: what a
// client sees that knows all members.
type witness struct {
	addrs []string
	creds credentials.TransportCredentials
	call  func(context.Context, grpc.ClientConnInterface) error

	mu  sync.Mutex
	all []success
}

// absence is what a witness saw of an event.
type absence struct {
	back time.Duration // from the begin of the event to the first answer to a call that was made after its end
	gap  time.Duration // the longest time without any answer
}

// event is when something began to happen, such as a signal that was sent, and when it was done,
// such as the end of the process.
type event struct{ began, done time.Time }

// see watches while something happens, until calls are answered again.
func (w *witness) see(ctx context.Context, happen func() (event, error)) (absence, error) {
	ctx, stop := context.WithTimeout(ctx, outageTimeout)
	defer stop()
	w.all = nil
	asking, enough := context.WithCancel(ctx)
	var g errgroup.Group
	for _, addr := range w.addrs {
		g.Go(func() error { return w.ask(asking, addr) })
	}
	var at event
	err := func() (err error) {
		defer enough()
		if err := w.until(ctx, time.Now()); err != nil { // somebody answers before it
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
		return absence{}, err
	}
	return w.judge(at), nil
}

// ask asks one member until ctx ends. What fails is made again.
func (w *witness) ask(ctx context.Context, addr string) (err error) {
	soon := grpc.ConnectParams{Backoff: backoff.Config{BaseDelay: 5 * time.Millisecond, Multiplier: 1.2,
		MaxDelay: 50 * time.Millisecond}, MinConnectTimeout: witnessTimeout}
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(w.creds), grpc.WithConnectParams(soon))
	if err != nil {
		return fmt.Errorf("connect to %s: %w", addr, err)
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	for ctx.Err() == nil {
		s := success{began: time.Now()}
		call, stop := context.WithTimeout(ctx, witnessTimeout)
		err := w.call(call, conn)
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

// until waits for an answer to a call that was made after a moment.
func (w *witness) until(ctx context.Context, t time.Time) error {
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

// judge makes an absence of what was answered when, around an event.
func (w *witness) judge(at event) absence {
	w.mu.Lock()
	defer w.mu.Unlock()
	slices.SortFunc(w.all, func(a, b success) int { return a.ended.Compare(b.ended) })
	var o absence
	for i, s := range w.all {
		if i > 0 {
			o.gap = max(o.gap, s.ended.Sub(w.all[i-1].ended))
		}
		if o.back == 0 && s.began.After(at.done) {
			o.back = s.ended.Sub(at.began)
		}
	}
	return o
}
