package images

import (
	"cmp"
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

// Config configures a Depot. The zero value works.
type Config struct {
	// PeerID is this peer's id.
	PeerID string
	// Interval is the time between two checks for missing files; default 1 s.
	Interval time.Duration
	// Stall is how long a source may send nothing before it is given up; default 30 s.
	Stall time.Duration
	// Pause is the delay before a failed fetch is first retried; default 1 s. It doubles
	// with each failure, up to 600 times its initial value.
	Pause time.Duration
	// Grace is how long followers wait for the leader to fetch a URL, so that it is fetched
	// once; default 15 s.
	Grace time.Duration
	// Patience is how long a download waits for a file that is being fetched; default 20 s.
	Patience time.Duration
	// KeepUnused is how long a file that no image uses is kept; default 24 h.
	KeepUnused time.Duration
	// Client fetches URLs; the default bounds dialing and the wait for a response header.
	Client *http.Client
	// Transport is the transport of the default Client, which changes it; default: a copy
	// of http.DefaultTransport.
	Transport *http.Transport
	// Logger discards logs if nil. Registerer, if not nil, registers the metrics.
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// Cluster is the part of *cluster.Peer that a Depot needs.
type Cluster interface {
	Leader() (id string, self, ok bool)
	PeerConn(id string) (grpc.ClientConnInterface, error)
	Status(ctx context.Context) *holdfastv1.ClusterStatus
	// View returns a state that is not older than the call.
	View(ctx context.Context) (*fsm.View, error)
}

// State is this peer's own copy of the replicated state (*fsm.FSM).
type State interface{ View() *fsm.View }

// Limits of a Depot.
const (
	maxFetches   = 4 // concurrent
	maxUploads   = 8
	maxDownloads = 512
	maxOfOne     = 32  // concurrent downloads of one address
	maxPauses    = 600 // maximum delay between two fetches, in multiples of Config.Pause
)

var errNotRunning = errors.New("this peer is starting or stopping and fetches no files")

// file is a file to fetch.
type file struct {
	sum, url string
	size     int64
}

// Depot stores the files of images on this peer.
type Depot struct {
	internalv1.UnimplementedBlobServiceServer
	cfg     Config
	log     *slog.Logger
	store   *blob.Store
	cluster Cluster
	state   State
	metrics *metrics

	fetches, uploads chan struct{} // semaphores: one element for each in progress
	downloads        *downloadLimit

	mu       sync.Mutex
	life     context.Context // the context of Run; nil if it is not running
	work     sync.WaitGroup
	flights  map[string]*flight // by sum
	troubles map[string]*trouble
	blanks   map[string][]int64 // by sum: offsets of the parameter area in a boot medium
}

// flight is a fetch in progress. Any number of callers may wait for it.
type flight struct {
	done chan struct{}
	err  error // set before done is closed
}

// trouble is the state of a missing file.
type trouble struct {
	since time.Time // when it was found missing
	err   error     // of the last fetch
	next  time.Time // time of the next fetch
	pause time.Duration
}

// New returns a Depot over a store. It fetches nothing until Run is called.
func New(cfg Config, store *blob.Store, cluster Cluster, state State) *Depot {
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	if cfg.Client == nil {
		t := cfg.Transport
		if t == nil {
			t = http.DefaultTransport.(*http.Transport).Clone()
		}
		t.ResponseHeaderTimeout = time.Minute
		cfg.Client = &http.Client{Transport: t}
	}
	cfg.Interval = cmp.Or(cfg.Interval, time.Second)
	cfg.Stall = cmp.Or(cfg.Stall, 30*time.Second)
	cfg.Pause = cmp.Or(cfg.Pause, time.Second)
	cfg.Grace = cmp.Or(cfg.Grace, 15*time.Second)
	cfg.Patience = cmp.Or(cfg.Patience, 20*time.Second)
	cfg.KeepUnused = cmp.Or(cfg.KeepUnused, 24*time.Hour)
	d := &Depot{
		cfg:       cfg,
		log:       cfg.Logger,
		store:     store,
		cluster:   cluster,
		state:     state,
		fetches:   make(chan struct{}, maxFetches),
		uploads:   make(chan struct{}, maxUploads),
		downloads: &downloadLimit{of: map[string]int{}},
		flights:   map[string]*flight{},
		troubles:  map[string]*trouble{},
	}
	d.metrics = newMetrics(cfg.Registerer, store)
	return d
}

// Register adds the gRPC service that other peers call.
func (d *Depot) Register(r grpc.ServiceRegistrar) { internalv1.RegisterBlobServiceServer(r, d) }

// Run fetches missing files and removes unused ones until ctx ends.
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
	tick := time.NewTicker(d.cfg.Interval)
	defer tick.Stop()
	var swept time.Time
	for {
		d.fetchMissing(ctx)
		if now := time.Now(); now.Sub(swept) > d.cfg.KeepUnused/24 {
			d.sweep(ctx, now)
			swept = now
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// fetch starts to fetch a file, or returns the fetch that is already in progress.
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
		fl.err = d.fetchWithRetry(ctx, f, prefer)
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.flights, f.sum)
		d.note(f.sum, fl.err)
		close(fl.done)
	})
	return fl
}

// wait waits for a fetch. The end of ctx ends only the wait, not the fetch.
func (fl *flight) wait(ctx context.Context) error {
	select {
	case <-fl.done:
		return fl.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// note records the result of a fetch. The caller holds mu.
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

// status reports whether a file is being fetched, and returns the error of the last fetch.
func (d *Depot) status(sum string) (fetching bool, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if t := d.troubles[sum]; t != nil {
		err = t.err
	}
	return d.flights[sum] != nil, err
}
