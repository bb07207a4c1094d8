package chaos

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/internal/localcluster"
	"github.com/holdfast-metal/holdfast/internal/wait"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/test/robustness/harness"
)

const (
	tick      = 2 * time.Millisecond
	writers   = 8  // loops of writes, each through all peers
	inFlight  = 24 // machines that always have a run
	writePace = 5 * time.Millisecond
	loadPlan  = "load"
)

// load is the traffic during kills: writes, reads, and runs of several kinds of steps.
type load struct {
	cluster *harness.Cluster
	client  *client.Client
	writer  *marks
	runners []*runner
	stop    context.CancelFunc
	wg      sync.WaitGroup

	mu   sync.Mutex
	errs []error
}

// marks are the recent acknowledged writes: when they began and ended.
type marks struct {
	mu   sync.Mutex
	late [][2]time.Time
}

func (m *marks) add(began, ended time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.late = append(m.late, [2]time.Time{began, ended})
	if len(m.late) > 100_000 {
		m.late = m.late[50_000:]
	}
}

// first returns the time from a moment to the first acknowledgement of a write that began
// after it, or 0 if there was none.
func (m *marks) first(at time.Time) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	var first time.Duration
	for _, w := range m.late {
		if d := w[1].Sub(at); w[0].After(at) && (first == 0 || d < first) {
			first = d
		}
	}
	return first
}

// runner starts one run after the other on a machine.
type runner struct {
	machine string
	mu      sync.Mutex
	moves   [][2]time.Time // when a transition was made, and when it was received
}

func (r *runner) note(e *holdfastv1.RunEvent) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.moves = append(r.moves, [2]time.Time{e.GetTs().AsTime(), time.Now()})
	return nil
}

// moved returns the time from a moment until a transition that was made after it was
// received, or 0 if there was none.
func (r *runner) moved(at time.Time) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, m := range r.moves {
		if m[0].After(at) {
			return m[1].Sub(at)
		}
	}
	return 0
}

func startLoad(ctx context.Context, c *harness.Cluster) (*load, error) {
	cl, err := client.Dial(client.Config{Addrs: c.Addrs(), TLS: c.TLS(), Timeout: gapTime})
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	l := &load{cluster: c, client: cl, writer: &marks{}, stop: stop}
	if err := l.prepare(ctx); err != nil {
		l.close()
		return nil, err
	}
	for i := range writers {
		l.wg.Go(func() { l.write(ctx, fmt.Sprint("load-writer-", i)) })
	}
	for _, r := range l.runners {
		l.wg.Go(func() { l.run(ctx, r) })
	}
	return l, nil
}

func (l *load) prepare(ctx context.Context) error {
	step := func(name string, s *holdfastv1.Step) *holdfastv1.Step { s.Name = name; return s }
	plan := &holdfastv1.Plan{PlanId: loadPlan, Steps: []*holdfastv1.Step{
		step("talk",
			&holdfastv1.Step{Kind: &holdfastv1.Step_Ssh{Ssh: &holdfastv1.SshCommand{Script: "seq 20\nsleep 0.3\nseq 20\n"}}}),
		step("boot", &holdfastv1.Step{Kind: &holdfastv1.Step_Netboot{Netboot: &holdfastv1.SetNetboot{Mode: "PXE"}}}),
		step("restart", &holdfastv1.Step{Kind: &holdfastv1.Step_Reboot{Reboot: &holdfastv1.Reboot{Mode: "bmc"}}}),
		step("install",
			&holdfastv1.Step{Kind: &holdfastv1.Step_Repave{Repave: &holdfastv1.RepaveImage{Image: "debian-13"}}}),
	}}
	if _, err := l.client.Plans().CreatePlan(ctx, &holdfastv1.CreatePlanRequest{Plan: plan}); err != nil {
		return fmt.Errorf("prepare the load: %w", err)
	}
	var ids []string
	for i := range inFlight {
		ids = append(ids, fmt.Sprint("load-", i))
		l.runners = append(l.runners, &runner{machine: ids[i]})
	}
	for i := range writers {
		ids = append(ids, fmt.Sprint("load-writer-", i))
	}
	for _, id := range ids {
		if _, err := l.client.Machines().RegisterMachine(
			ctx, &holdfastv1.RegisterMachineRequest{Machine: &holdfastv1.Machine{MachineId: id}},
		); err != nil {
			return fmt.Errorf("prepare the load: %w", err)
		}
	}
	return nil
}

func (l *load) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.errs = append(l.errs, err)
}

func (l *load) failure() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return errors.Join(l.errs...)
}

func (l *load) close() {
	l.stop()
	l.wg.Wait()
	_ = l.client.Close()
}

func (l *load) write(ctx context.Context, machine string) {
	for n := 1; ctx.Err() == nil; n++ {
		began := time.Now()
		_, err := l.client.Machines().UpdateMachine(ctx, &holdfastv1.UpdateMachineRequest{
			Machine:    &holdfastv1.Machine{MachineId: machine, Labels: map[string]string{"n": strconv.Itoa(n)}},
			UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"labels.n"}}})
		switch {
		case err == nil:
			l.writer.add(began, time.Now())
		case ctx.Err() == nil:
			l.fail(fmt.Errorf("write: %w", err))
		}
		_ = wait.Sleep(ctx, writePace)
	}
}

// run keeps a machine busy, and records each transition of its runs.
func (l *load) run(ctx context.Context, r *runner) {
	for n := 1; ctx.Err() == nil; n++ {
		started, err := l.client.Runs().StartRun(ctx,
			&holdfastv1.StartRunRequest{RequestId: strconv.Itoa(n), MachineId: r.machine, PlanId: loadPlan})
		if err == nil {
			started, err = l.client.ObserveRun(ctx, started.GetRunId(), r.note)
		}
		if ctx.Err() != nil {
			return
		}
		if err == nil && started.GetPhase() != holdfastv1.Run_SUCCEEDED {
			err = fmt.Errorf("it is %s: %v", started.GetPhase(), started.GetError())
		}
		if err != nil {
			l.fail(fmt.Errorf("run %d of %s: %w", n, r.machine, err))
			return
		}
	}
}

func (l *load) read(ctx context.Context, conn *grpc.ClientConn, stale bool) error {
	ctx, stop := context.WithTimeout(ctx, 5*time.Second)
	defer stop()
	if stale {
		// The SDK also sets it, but tries other peers too.
		ctx = metadata.AppendToOutgoingContext(ctx, client.HeaderConsistency, "stale")
	}
	_, err := holdfastv1.NewMachineServiceClient(conn).GetMachine(ctx,
		&holdfastv1.GetMachineRequest{MachineId: "load-0"})
	return err
}

// staleReads are the stale reads of one peer.
type staleReads struct {
	longest time.Duration
	failed  int
}

// readStale makes stale reads at some peers until the returned function is called.
func (l *load) readStale(ctx context.Context, peers []*localcluster.Peer) ([]*staleReads, func() error, error) {
	ctx, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	var all []*staleReads
	var conns []*grpc.ClientConn
	end := func() error {
		stop()
		wg.Wait()
		var errs []error
		for _, c := range conns {
			errs = append(errs, c.Close())
		}
		return errors.Join(errs...)
	}
	for _, p := range peers {
		conn, err := l.dial(p)
		if err != nil {
			return nil, nil, errors.Join(err, end())
		}
		conns = append(conns, conn)
		if err := l.read(ctx, conn, true); err != nil { // connect first
			return nil, nil, errors.Join(fmt.Errorf("read stale at peer %s: %w", p.ID, err), end())
		}
		s := &staleReads{}
		all = append(all, s)
		wg.Go(func() {
			for last := time.Now(); ctx.Err() == nil; _ = wait.Sleep(ctx, tick) {
				switch err := l.read(ctx, conn, true); {
				case err == nil:
					s.longest, last = max(s.longest, time.Since(last)), time.Now()
				case ctx.Err() == nil:
					s.failed++
				}
			}
		})
	}
	return all, end, nil
}
