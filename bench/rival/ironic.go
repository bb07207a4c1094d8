package rival

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/holdfast-metal/holdfast/bench/contest"
	"github.com/holdfast-metal/holdfast/bench/proc"
	"github.com/holdfast-metal/holdfast/cluster/freeport"
	"github.com/holdfast-metal/holdfast/internal/localcluster"
	"github.com/holdfast-metal/holdfast/internal/wait"
	"github.com/holdfast-metal/holdfast/providers/ironic/ironiclab"
)

// ironicSettings are the settings that differ from the defaults, in favor of Ironic: no cleaning,
// which is not part of a deployment, and no polls of the power of all nodes. Delays of fake
// hardware are zero by default.
const ironicSettings = `[conductor]
automated_clean = false
sync_power_state_interval = 0
`

const (
	// poll interval of a waiting client. 30 ms or 400 ms give no more deployments
	ironicPoll    = 200 * time.Millisecond
	ironicTimeout = time.Minute // of one deployment
	fillTimeout   = 10 * time.Minute
	ironicFirst   = 20 // nodes to create per second of the first slice
)

// Ironic is OpenStack Ironic with fake hardware: one conductor, an API with a worker for each
// processor, JSON-RPC between them and SQLite, which syncs each transaction.
//
// It is SQLite because that is what it is fastest with here: the conductor is one thread of Python,
// which is what limits it, and MariaDB took as much of it for a deployment (45 ms) and a process
// more. SQLite's log is written ahead (ironiclab). The API is ironic-api itself: uWSGI, as Debian's
// service has it, closes each connection and was no faster.
type Ironic struct {
	*ironiclab.Lab

	Version string
	Workers []int // and their parent: the processes of the API

	conductor, api *localcluster.Program
	ports          *freeport.Block
	nodes          []string
	taken          atomic.Int64
}

// MissingIronic returns the name of a program of Ironic that is not installed, or "". Programs is
// their directory; empty: $PATH.
func MissingIronic(programs string) string { return ironiclab.Config{Programs: programs}.Missing() }

// StartIronic starts Ironic with its data below a directory and waits until the conductor is ready.
func StartIronic(ctx context.Context, programs, dir string) (i *Ironic, err error) {
	i = &Ironic{}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("start Ironic: %w", err), i.Close())
		}
	}()
	if i.ports, err = freeport.Claim(ctx, 2); err != nil {
		return i, err
	}
	cfg := ironiclab.Config{
		Programs: programs,
		Dir:      filepath.Join(dir, "ironic"),
		API:      i.ports.Address("127.0.0.1"),
		RPC:      i.ports.Address("127.0.0.1"),
		Workers:  runtime.NumCPU(), Settings: ironicSettings,
	}
	if i.Version, err = cfg.Version(ctx); err != nil {
		return i, err
	}
	if i.Lab, err = ironiclab.Prepare(ctx, cfg); err != nil {
		return i, err
	}
	program, args := i.Conductor()
	if i.conductor, err = localcluster.StartProgram(program, args, nil,
		filepath.Join(cfg.Dir, "conductor.log")); err != nil {
		return i, err
	}
	program, args = i.API()
	if i.api, err = localcluster.StartProgram(program, args, nil, filepath.Join(cfg.Dir, "api.log")); err != nil {
		return i, err
	}
	if err := i.wait(ctx); err != nil {
		return i, err
	}
	i.Workers, err = proc.Family(i.api.PID())
	return i, err
}

// wait waits until the API reports a conductor.
func (i *Ironic) wait(ctx context.Context) error {
	ctx, stop := context.WithTimeout(ctx, readyTimeout)
	defer stop()
	for {
		ready, err := i.Ready(ctx)
		if ready {
			return nil
		}
		for _, p := range []*localcluster.Program{i.conductor, i.api} {
			select {
			case <-p.Done():
				return fmt.Errorf("wait for a conductor: a program has ended; the end of its log:\n%s", p.LogTail(2000))
			default:
			}
		}
		if late := wait.Sleep(ctx, 100*time.Millisecond); late != nil {
			return fmt.Errorf("wait for a conductor: %w; the end of its log:\n%s", errors.Join(late, err),
				i.conductor.LogTail(2000))
		}
	}
}

// Close kills its processes.
func (i *Ironic) Close() error {
	var errs []error
	for _, p := range []*localcluster.Program{i.api, i.conductor} {
		if p != nil {
			errs = append(errs, p.Kill())
		}
	}
	if i.Lab != nil {
		i.Lab.Close()
	}
	if i.ports != nil {
		errs = append(errs, i.ports.Release())
	}
	return errors.Join(errs...)
}

// procs returns the processes of Ironic whose processor time counts.
func (i *Ironic) procs() map[string][]int {
	return map[string][]int{"conductor": {i.conductor.PID()}, "api": i.Workers}
}

// fill creates nodes until n can be deployed. Each node is deployed once: creating a node costs
// Ironic less than undeploying one, and neither is measured.
func (i *Ironic) fill(ctx context.Context, n, clients int) error {
	missing := n - (len(i.nodes) - int(i.taken.Load()))
	if missing <= 0 {
		return nil
	}
	made := make([]string, missing)
	var next atomic.Int64
	_, err := contest.Press(ctx, clients, fillTimeout, func(ctx context.Context, _ int) (err error) {
		k := int(next.Add(1)) - 1
		if k >= missing {
			return contest.ErrEnough
		}
		made[k], err = i.MakeAvailable(ctx)
		return err
	})
	i.nodes = append(i.nodes, made...)
	return err
}

// take returns an unused node, or contest.ErrEnough if there is none.
func (i *Ironic) take() (string, error) {
	k := int(i.taken.Add(1)) - 1
	if k >= len(i.nodes) {
		i.taken.Add(-1)
		return "", contest.ErrEnough
	}
	return i.nodes[k], nil
}

// deployments are clients that deploy nodes: each deploys one, waits until it is active, and
// deploys the next.
type deployments struct {
	*Ironic
	clients int
	want    int // nodes for the next slice
}

func (d *deployments) Prepare(ctx context.Context) error { return d.fill(ctx, d.want, d.clients) }

func (d *deployments) Run(ctx context.Context, length time.Duration) ([]time.Duration, error) {
	latencies, err := contest.Press(ctx, d.clients, length, func(ctx context.Context, _ int) error {
		id, err := d.take()
		if err != nil {
			return err
		}
		ctx, stop := context.WithTimeout(ctx, ironicTimeout)
		defer stop()
		return d.Deploy(ctx, id, ironicPoll)
	})
	d.want = max(d.want, len(latencies)*5/4)
	return latencies, err
}

// nodeReads are clients that read random nodes without a pause.
type nodeReads struct {
	*Ironic
	clients int
}

func (r nodeReads) Run(ctx context.Context, length time.Duration) ([]time.Duration, error) {
	return contest.Press(ctx, r.clients, length, func(ctx context.Context, _ int) error {
		ctx, stop := context.WithTimeout(ctx, ironicTimeout)
		defer stop()
		return r.Do(ctx, http.MethodGet, "/v1/nodes/"+r.nodes[rand.IntN(len(r.nodes))], nil, nil) //nolint:gosec // no secret
	})
}

// Names of the contenders of Ironic.
const (
	IronicDeploys = "Ironic's deployments"
	IronicGets    = "Ironic's reads"
)

// Contenders returns Ironic as a contender for deployments and as one for reads.
func (i *Ironic) Contenders(slice time.Duration, clients int) []*contest.Contender {
	first := clients + int(ironicFirst*slice.Seconds())
	return []*contest.Contender{
		{Name: IronicDeploys, Load: &deployments{Ironic: i, clients: clients, want: first}, Procs: i.procs(),
			Clients: clients},
		{Name: IronicGets, Load: nodeReads{i, clients}, Procs: i.procs()},
	}
}
