// Package installer writes an image to a disk of this machine, as a Holdfast cluster orders.
//
// It runs the steps in order: work order, disk, image, the machine's own files, report. Its
// subpackages and the Machine interface do the actual work. Two rules always hold. Nothing
// is written before the order is read, its rule has selected exactly one disk, and a peer
// has confirmed that the session is open. And once writing has begun, the disk boots either
// the whole image with the right checksum, or nothing.
package installer

import (
	"cmp"
	"context"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/holdfast-metal/holdfast/agent/installer/image"
	"github.com/holdfast-metal/holdfast/agent/installer/peers"
	"github.com/holdfast-metal/holdfast/internal/diskrule"
)

// Machine is the machine to install.
type Machine interface {
	// Disks returns the current disks.
	Disks() ([]diskrule.Disk, error)
	// Inventory returns the rest of the inventory, and the address of the machine.
	Inventory() (peers.Inventory, string)
	// Open opens a disk for writing.
	Open(name string) (Disk, error)
	// Finish adapts a written and closed disk to this machine. It returns the public halves
	// of its host keys.
	Finish(ctx context.Context, disk string, o peers.Order) ([]string, error)
}

// Disk is an open disk.
type Disk interface {
	image.Disk
	io.Closer
}

// Sectored is a Disk with a known logical sector size, in bytes. Other disks have 512.
type Sectored interface{ SectorSize() int }

// Eraser is a Disk that can be erased. Erase returns the method that worked.
type Eraser interface {
	Erase(ctx context.Context) (method string, err error)
}

// Unpacker is a Machine that can also install a root file system.
type Unpacker interface {
	// CanUnpack returns an error if a disk cannot be used. It writes nothing.
	CanUnpack(disk string) error
	// Unpack creates partitions and file systems on a disk, which must not be open, and
	// unpacks a tar stream into the root. The disk does not boot before Finish.
	Unpack(ctx context.Context, disk string, archive io.Reader) error
}

// Config configures an Installer. Zero values select the defaults.
type Config struct {
	Client *peers.Client
	Log    *peers.Log // of the run; nil: nothing is sent
	HTTP   *http.Client
	Logger *slog.Logger

	OrderTimeout  time.Duration // bounds the wait for a work order; default: 15 minutes
	ReportTimeout time.Duration // bounds the retries of the final report; default: 15 minutes
	Settle        time.Duration // the list of disks must not change for this long; default: 3 s
	DiskTimeout   time.Duration // bounds the wait for a disk that the rule selects; default: 30 s
	Every         time.Duration // between reports of progress; default: 5 s
	GiveUp        time.Duration // see image.DownloadConfig
}

// Installer carries out one work order.
type Installer struct {
	Config
	machine Machine
}

// New returns an Installer. It sends and writes nothing yet.
func New(cfg Config, m Machine) *Installer {
	cfg.OrderTimeout = cmp.Or(cfg.OrderTimeout, 15*time.Minute)
	cfg.ReportTimeout = cmp.Or(cfg.ReportTimeout, 15*time.Minute)
	cfg.Settle = cmp.Or(cfg.Settle, 3*time.Second)
	cfg.DiskTimeout = cmp.Or(cfg.DiskTimeout, 30*time.Second)
	cfg.Every = cmp.Or(cfg.Every, 5*time.Second)
	if cfg.Log == nil {
		cfg.Log = &peers.Log{}
	}
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	return &Installer{Config: cfg, machine: m}
}
