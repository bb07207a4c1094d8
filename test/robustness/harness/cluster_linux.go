package harness

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/cluster/peertls/issue"
	"github.com/holdfast-metal/holdfast/internal/localcluster"
	"github.com/holdfast-metal/holdfast/test/logstore"
	"github.com/holdfast-metal/holdfast/test/robustness/private"
	"github.com/holdfast-metal/holdfast/test/robustness/site"
	"github.com/holdfast-metal/holdfast/test/robustness/wire"
)

// Config configures a cluster.
type Config struct {
	Binary         string
	Dir            string // logs, disks and data directories; Close may remove it
	Peers          int    // default 3
	Seed           int64  // of the losses of a lossy link
	RaftMultiplier float64
	Loopback       bool            // no namespaces and no separate disks, even if possible
	Args, Env      []string        // of each peer
	Stores         logstore.Stores // of the Raft logs; nil: the default of all peers
	Fleet          []string        // further arguments of the fake hardware
	// BMCServer is the executable of BMCs (of site.BMCServer). Empty means no BMCs and no real
	// host.
	BMCServer string
	Log       *slog.Logger
}

// spare is the number of peers that can be added later.
const spare = 2

// QuickRaft is the multiplier for tests: elections take a few hundred milliseconds, with
// the race detector on two cores.
const QuickRaft = 0.5

// OftenSnapshots returns arguments for frequent snapshots and a short log, so that a peer
// that was away for some seconds needs a snapshot.
func OftenSnapshots() []string {
	return []string{"--raft-snapshot-threshold", "300", "--raft-snapshot-interval", "3s", "--raft-trailing-logs", "200"}
}

// SomeSnapshots returns arguments for runs of hours: a peer that was away for a minute
// needs a snapshot, and a growing state is not written all the time.
func SomeSnapshots() []string {
	return []string{
		"--raft-snapshot-threshold", "2000", "--raft-snapshot-interval", "10s", "--raft-trailing-logs", "1000",
	}
}

// Cluster is peers and the fake hardware, with their network and disks.
type Cluster struct {
	*localcluster.Cluster
	Fake  *localcluster.FakeHardware
	Site  *site.Site   // the real hardware; nil: none
	Net   *wire.Switch // nil on loopback
	Disks []*Disk      // by peer; nil on loopback
	Dir   string
	Log   *slog.Logger

	cas     authorities
	revoked revoked
	probe   *client.Client
	stopNet context.CancelFunc
	netDone chan error
}

// Start starts everything, and blocks until a leader serves. With namespaces the process
// must be a private one, and can have only one such cluster at a time.
func Start(ctx context.Context, cfg Config) (c *Cluster, err error) {
	if cfg.Peers == 0 {
		cfg.Peers = 3
	}
	if cfg.RaftMultiplier == 0 {
		cfg.RaftMultiplier = QuickRaft
	}
	c = &Cluster{Dir: cfg.Dir, Log: cfg.Log}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Close(true))
		}
	}()
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, err
	}
	if c.cas[1], err = issue.NewCA("local", time.Now().Add(certLife)); err != nil {
		return nil, err
	}
	local := localcluster.Config{
		Binary:         cfg.Binary,
		Dir:            cfg.Dir,
		Peers:          cfg.Peers,
		Spare:          spare,
		Trust:          c.cas[1].Pair.Cert,
		RaftMultiplier: cfg.RaftMultiplier,
		Args:           cfg.Args,
		Env:            cfg.Env,
	}
	if cfg.Stores != nil {
		c.Log.Info(cfg.Stores.Text(cfg.Peers))
		local.ArgsOf = cfg.Stores.Args
	}
	host := "127.0.0.1"
	if private.Inside() && !cfg.Loopback {
		if err := c.connect(cfg, &local); err != nil {
			return nil, err
		}
		host = c.Net.Addr(c.Net.Driver())
	} else if !cfg.Loopback {
		c.Log.Warn("peers share this host's loopback: faults of networks and disks are skipped",
			"reason", private.Missing())
	}
	if c.Fake, err = localcluster.StartFakeHardwareOn(ctx, host, cfg.Binary, cfg.Dir, cfg.Fleet...); err != nil {
		return nil, err
	}
	local.FakeEndpoint = c.Fake.Endpoint
	if err := c.openSite(ctx, host, cfg, &local); err != nil {
		return nil, err
	}
	if c.Cluster, err = localcluster.Start(ctx, local); err != nil {
		return nil, err
	}
	if err := c.stored(cfg.Stores); err != nil {
		return nil, err
	}
	c.cas[0] = c.Files().Authority()
	for _, d := range c.Disks { // the peers' configuration, which nothing else would sync
		if err := d.sync(); err != nil {
			return nil, err
		}
	}
	if c.probe, err = client.Dial(client.Config{Addrs: c.Addrs(), TLS: c.TLS(), Timeout: probeTimeout}); err != nil {
		return nil, err
	}
	return c, c.setUpProbe(ctx)
}

// connect gives each peer a namespace and a disk.
func (c *Cluster) connect(cfg Config, local *localcluster.Config) error {
	var err error
	if c.Net, err = wire.New(cfg.Peers+spare, cfg.Seed); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	c.stopNet, c.netDone = stop, make(chan error, 1)
	go func() { c.netDone <- c.Net.Run(ctx) }()
	local.Enter = c.Net.Enter
	for i := range cfg.Peers + spare {
		local.Hosts = append(local.Hosts, c.Net.Addr(i))
		id := "n" + strconv.Itoa(i+1)
		d, err := newDisk(filepath.Join(cfg.Dir, id+".ext4"), filepath.Join(cfg.Dir, id))
		if err != nil {
			return fmt.Errorf("create the disk of peer %s: %w", id, err)
		}
		c.Disks = append(c.Disks, d)
	}
	return nil
}

// Index returns the number of a peer, from 0, which is also that of its host and its disk.
func (c *Cluster) Index(p *localcluster.Peer) int { return slices.Index(c.All(), p) }

// electionTime bounds the wait for a leader: with all peers up there is one within a
// second.
const electionTime = 20 * time.Second

// LeaderNow waits for a leader and returns its number.
func (c *Cluster) LeaderNow(ctx context.Context) (int, error) {
	ctx, stop := context.WithTimeout(ctx, electionTime)
	defer stop()
	p, err := c.Leader(ctx)
	if err != nil {
		return 0, err
	}
	return c.Index(p), nil
}

// Close stops everything. With keep, the directory is kept, with the contents of the disks.
func (c *Cluster) Close(keep bool) error {
	var errs []error
	if c.probe != nil {
		errs = append(errs, c.probe.Close())
	}
	if c.Cluster != nil {
		errs = append(errs, c.Cluster.Close())
	}
	if c.Fake != nil {
		errs = append(errs, c.Fake.Close())
	}
	if c.Site != nil {
		errs = append(errs, c.Site.Close())
	}
	for _, d := range c.Disks {
		errs = append(errs, d.remove(keep))
	}
	if c.stopNet != nil {
		c.stopNet()
		errs = append(errs, <-c.netDone)
	}
	if !keep {
		errs = append(errs, os.RemoveAll(c.Dir))
	}
	return errors.Join(errs...)
}

// remove unmounts the disk. With keep, its files are copied to the mount point.
func (d *Disk) remove(keep bool) error {
	saved := d.Dir + ".saved"
	if keep {
		if err := exec.Command("cp", "-r", d.Dir, saved).Run(); err != nil {
			return fmt.Errorf("save %s: %w", d.Dir, err)
		}
	}
	if err := errors.Join(d.unmount(), os.Remove(d.image)); err != nil {
		return err
	}
	if !keep {
		return nil
	}
	return errors.Join(os.Remove(d.Dir), os.Rename(saved, d.Dir))
}
