package harness

import (
	"context"
	"strconv"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/fieldmaskpb"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Writer writes continuously, one write after the other, and records the acknowledgements.
type Writer struct {
	Machine string

	stop context.CancelFunc
	done chan struct{}

	mu      sync.Mutex
	acked   int
	last    time.Time
	longest time.Duration // between two acknowledgements
	next    []chan time.Time
}

// pace leaves the machine some time for other processes.
const pace = 5 * time.Millisecond

// Write begins to write the label "n" of a machine, through any peer. It counts up from 1.
func (c *Cluster) Write(machineID string) *Writer {
	c.t.Helper()
	c.Register(machineID)
	ctx, stop := context.WithCancel(c.context())
	w := &Writer{Machine: machineID, stop: stop, done: make(chan struct{}), last: time.Now()}
	cl := c.Dial(c.Addrs()...)
	go func() {
		defer close(w.done)
		tick := time.NewTicker(pace)
		defer tick.Stop()
		for n := 1; ctx.Err() == nil; n++ {
			w.mu.Lock()
			waiting := w.next
			w.next = nil
			w.mu.Unlock()
			_, err := cl.Machines().UpdateMachine(ctx, &holdfastv1.UpdateMachineRequest{
				Machine:    &holdfastv1.Machine{MachineId: machineID, Labels: map[string]string{"n": strconv.Itoa(n)}},
				UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"labels.n"}}})
			now := time.Now()
			w.mu.Lock()
			if err == nil {
				w.longest = max(w.longest, now.Sub(w.last))
				w.acked, w.last = n, now
				for _, ch := range waiting {
					ch <- now
				}
			} else {
				if ctx.Err() == nil {
					c.t.Errorf("write %d: %v", n, err)
				}
				w.next = append(waiting, w.next...)
			}
			w.mu.Unlock()
			<-tick.C
		}
	}()
	c.t.Cleanup(func() { w.Stop() })
	return w
}

// Next blocks until a write that begins after the call is acknowledged, and returns the
// time.
func (w *Writer) Next(ctx context.Context) (time.Time, error) {
	ch := make(chan time.Time, 1)
	w.mu.Lock()
	w.next = append(w.next, ch)
	w.mu.Unlock()
	select {
	case at := <-ch:
		return at, nil
	case <-ctx.Done():
		return time.Time{}, ctx.Err()
	}
}

// Stop ends the writer. It returns the number of the last acknowledged write, and the
// longest time between two acknowledgements.
func (w *Writer) Stop() (acked int, longest time.Duration) {
	w.stop()
	<-w.done
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.acked, w.longest
}
