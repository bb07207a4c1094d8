package images

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/internal/images/blob"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// Config is what a Depot can be told. The zero value works.
type Config struct {
	// PeerID is this peer's id.
	PeerID string
	// Interval is the time between two looks at what is missing; default 1 s.
	Interval time.Duration
	// Stall is how long a source may send nothing before it counts as lost; default 30 s.
	Stall time.Duration
	// Pause is what the first repetition of a fetch that failed waits; it doubles up to 600 times
	// that. Default 1 s.
	Pause time.Duration
	// Grace is how long a follower leaves a URL to the leader, so that it is asked once; default 15
	// s.
	Grace time.Duration
	// Patience is how long a download waits for a file that is still being fetched; default 20 s.
	Patience time.Duration
	// KeepUnused is how long a file stays that no image has; default 24 h.
	KeepUnused time.Duration
	// Client fetches from URLs; default one that bounds dialing and waiting for an answer.
	Client *http.Client
	// Transport is that of the default Client; nil: like http.DefaultTransport. It is changed.
	Transport *http.Transport
	// Logger defaults to none, Registerer gets the metrics.
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// Cluster is this peer among the others (*cluster.Node).
type Cluster interface {
	Leader() (id string, self, ok bool)
	PeerConn(id string) (grpc.ClientConnInterface, error)
	Status(ctx context.Context) *holdfastv1.ClusterStatus
	// View returns a state that is not older than the call.
	View(ctx context.Context) (*fsm.View, error)
}

// State is this peer's own copy of the replicated state (*fsm.FSM).
type State interface{ View() *fsm.View }

// The limits of a Depot.
const (
	maxFetches   = 4 // at once
	maxUploads   = 8
	maxDownloads = 512
	maxOfOne     = 32  // downloads of one address
	maxPauses    = 600 // times Config.Pause between two fetches
)

var errNotRunning = errors.New("this peer is starting or stopping: it fetches nothing now")

// file is what is to be fetched.
type file struct {
	sum, url string
	size     int64
}

// Depot keeps the files of images on this peer.
type Depot struct {
	internalv1.UnimplementedBlobServiceServer
	cfg     Config
	log     *slog.Logger
	store   *blob.Store
	cluster Cluster
	state   State
	metrics *metrics

	fetches, uploads chan struct{} // one in it for each under way
	downloads        *places

	mu       sync.Mutex
	life     context.Context // of Run; nil if it does not run
	work     sync.WaitGroup
	flights  map[string]*flight // by sum
	troubles map[string]*trouble
	blanks   map[string][]int64 // where a boot medium has room, by sum
}

// flight is one fetch, which any number may wait for.
type flight struct {
	done chan struct{}
	err  error // set before done is closed
}

// trouble is what is known of a file that is not here.
type trouble struct {
	since time.Time // it is missing
	err   error     // of the last fetch
	next  time.Time // try again
	pause time.Duration
}

// New returns a Depot over a store. It fetches nothing until Run is called.
func New(cfg Config, store *blob.Store, cluster Cluster, state State) *Depot {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Client == nil {
		t := cfg.Transport
		if t == nil {
			t = http.DefaultTransport.(*http.Transport).Clone()
		}
		t.ResponseHeaderTimeout = time.Minute
		cfg.Client = &http.Client{Transport: t}
	}
	for _, d := range []struct {
		v         *time.Duration
		otherwise time.Duration
	}{{&cfg.Interval, time.Second}, {&cfg.Stall, 30 * time.Second}, {&cfg.Pause, time.Second}, {&cfg.Grace, 15 * time.Second},
		{&cfg.Patience, 20 * time.Second}, {&cfg.KeepUnused, 24 * time.Hour}} {
		if *d.v == 0 {
			*d.v = d.otherwise
		}
	}
	d := &Depot{cfg: cfg, log: cfg.Logger, store: store, cluster: cluster, state: state,
		fetches: make(chan struct{}, maxFetches), uploads: make(chan struct{}, maxUploads), downloads: &places{of: map[string]int{}},
		flights: map[string]*flight{}, troubles: map[string]*trouble{}}
	d.metrics = newMetrics(cfg.Registerer, store)
	return d
}

// Register adds the service that the other peers ask.
func (d *Depot) Register(r grpc.ServiceRegistrar) { internalv1.RegisterBlobServiceServer(r, d) }

// Run fetches what is missing, and removes what nobody needs any more, until ctx ends.
func (d *Depot) Run(ctx context.Context) error {
	d.mu.Lock()
	d.life = ctx
	d.mu.Unlock()
	defer func() {
		d.mu.Lock()
		d.life = nil
		d.mu.Unlock()
		d.work.Wait()
	}()
	look := time.NewTicker(d.cfg.Interval)
	defer look.Stop()
	var swept time.Time
	for {
		d.look(ctx)
		if now := time.Now(); now.Sub(swept) > d.cfg.KeepUnused/24 {
			d.sweep(ctx, now)
			swept = now
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// fetch begins to fetch a file, or joins who does already.
func (d *Depot) fetch(f file, prefer string) *flight {
	d.mu.Lock()
	defer d.mu.Unlock()
	if fl := d.flights[f.sum]; fl != nil {
		return fl
	}
	fl := &flight{done: make(chan struct{})}
	if d.life == nil || d.life.Err() != nil {
		fl.err = errNotRunning
		close(fl.done)
		return fl
	}
	d.flights[f.sum] = fl
	ctx := d.life
	d.work.Go(func() {
		fl.err = d.bring(ctx, f, prefer)
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.flights, f.sum)
		d.note(f.sum, fl.err)
		close(fl.done)
	})
	return fl
}

// wait waits for a fetch. That who waits goes away does not end it.
func (fl *flight) wait(ctx context.Context) error {
	select {
	case <-fl.done:
		return fl.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// note keeps what became of a fetch. The caller holds mu.
func (d *Depot) note(sum string, err error) {
	if err == nil {
		delete(d.troubles, sum)
		return
	}
	t := d.troubles[sum]
	if t == nil {
		t = &trouble{since: time.Now()}
		d.troubles[sum] = t
	}
	if errors.Is(err, errLeft) {
		t.next = time.Now().Add(d.cfg.Pause)
		return
	}
	t.err = err
	t.pause = min(max(d.cfg.Pause, 2*t.pause), maxPauses*d.cfg.Pause)
	t.next = time.Now().Add(t.pause)
}

// status reports whether a file is being fetched, and why the last fetch failed.
func (d *Depot) status(sum string) (fetching bool, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if t := d.troubles[sum]; t != nil {
		err = t.err
	}
	return d.flights[sum] != nil, err
}
