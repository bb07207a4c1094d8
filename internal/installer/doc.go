// Package installer puts an image on a disk of this machine, by order of a Holdfast cluster.
//
// It owns the order of things: work order, disk, image, the machine's own files, report. It does
// none of them by itself: the packages below it do, and the machine comes in as an interface. Two
// rules hold on every way through it. Nothing is written before the order was read, its rule has
// matched exactly one disk, and a peer has confirmed that the session is still open. And a disk
// that was begun boots either the whole image, whose checksum was right, or nothing.
package installer

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/holdfast-metal/holdfast/internal/installer/diskrule"
	"github.com/holdfast-metal/holdfast/internal/installer/image"
	"github.com/holdfast-metal/holdfast/internal/installer/peers"
)

// Machine is what the installer needs of the machine it runs on.
type Machine interface {
	// Disks lists what there is at the moment.
	Disks() ([]diskrule.Disk, error)
	// Look returns the rest of the inventory, and the address of the machine.
	Look() (peers.Inventory, string)
	// Open opens a disk for writing.
	Open(name string) (Disk, error)
	// Finish turns a disk that was written, and closed, into this machine's, and gives the public
	// halves of its host keys.
	Finish(ctx context.Context, disk string, o peers.Order) ([]string, error)
}

// Disk is an open disk.
type Disk interface {
	image.Disk
	io.Closer
}

// Sectored is a Disk that knows how large its logical sectors are, in bytes. Those of any other
// have 512.
type Sectored interface{ SectorSize() int }

// Eraser is a Disk that can be wiped. It gives the means that worked.
type Eraser interface {
	Erase(ctx context.Context) (method string, err error)
}

// Unpacker is a Machine that makes a disk of a root file system, too.
type Unpacker interface {
	// CanUnpack reports why it cannot do so with a disk, while nothing is written yet.
	CanUnpack(disk string) error
	// Unpack makes partitions and file systems on a disk, which is open nowhere, and unpacks a tar
	// into the root as it comes. The disk is not bootable before Finish.
	Unpack(ctx context.Context, disk string, archive io.Reader) error
}

// Config says how to go about it. Zero values are replaced by the defaults.
type Config struct {
	Client *peers.Client
	Log    *peers.Log // what the run shows; nil: nothing is sent
	HTTP   *http.Client
	Logger *slog.Logger

	OrderTimeout time.Duration // how long to wait for a work order; default: 15 minutes
	TellTimeout  time.Duration // how long to try to report how it ended; default: 15 minutes
	Settle       time.Duration // for how long the list of disks must not change before one is chosen; default: 3 s
	DiskTimeout  time.Duration // how long to wait for a disk that the rule matches; default: 30 s
	Every        time.Duration // between reports of progress; default: 5 s
	GiveUp       time.Duration // see image.DownloadConfig
}

// Installer carries out one work order.
type Installer struct {
	Config
	machine Machine
}

// New prepares an installation. It sends and writes nothing.
func New(cfg Config, m Machine) *Installer {
	def := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	def(&cfg.OrderTimeout, 15*time.Minute)
	def(&cfg.TellTimeout, 15*time.Minute)
	def(&cfg.Settle, 3*time.Second)
	def(&cfg.DiskTimeout, 30*time.Second)
	def(&cfg.Every, 5*time.Second)
	if cfg.Log == nil {
		cfg.Log = &peers.Log{}
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Installer{Config: cfg, machine: m}
}
