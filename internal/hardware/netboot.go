package hardware

import (
	"context"
	"encoding/json"
	"time"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/bmc"
	"github.com/holdfast-metal/holdfast/providers/netboot"
)

// Installs stores install sessions (notes.Installs).
type Installs interface {
	Session(machineID string) *holdfastv1.Install
	Open(ctx context.Context, op providers.Op, image, disk, cloudInit string, wipe bool) error
	Note(ctx context.Context, i *holdfastv1.Install, seen *internalv1.NoteInstall) error
}

// newImager returns the imager of machines that boot from the network.
func (h *Hardware) newImager(raw json.RawMessage, b *bmc.Provider, host providers.Inspector) (*netboot.Imager, error) {
	var stages stages
	if err := strict(raw, &stages); err != nil {
		return nil, err
	}
	return netboot.New(stages.config(), sessions{h}, b, host), nil
}

// stages are the time limits of the stages of an install.
type stages struct {
	Boot    int `json:"boot_seconds"`
	Start   int `json:"start_seconds"`
	Silence int `json:"silence_seconds"`
	Disk    int `json:"disk_seconds"`
}

func (s stages) config() netboot.Config {
	seconds := func(n int) time.Duration { return time.Duration(n) * time.Second }
	return netboot.Config{
		Boot:    seconds(s.Boot),
		Start:   seconds(s.Start),
		Silence: seconds(s.Silence),
		Disk:    seconds(s.Disk),
	}
}

// sessions implements netboot.Sessions with the install sessions of the peer.
type sessions struct{ h *Hardware }

func (s sessions) Session(machineID string) *holdfastv1.Install {
	return s.h.installs.Session(machineID)
}

func (s sessions) Open(ctx context.Context, op providers.Op, spec providers.InstallSpec) error {
	return s.h.installs.Open(ctx, op, spec.Image, spec.Disk, spec.CloudInit, spec.Wipe)
}

func (s sessions) Note(ctx context.Context, i *holdfastv1.Install, seen netboot.Seen) error {
	return s.h.installs.Note(ctx, i, &internalv1.NoteInstall{
		DiskBooted:   seen.DiskBooted,
		PowerOffSeen: seen.PowerOff,
		PowerOnSeen:  seen.PowerOn,
		MediumSha256: seen.MediumSHA256,
		MediumServer: seen.MediumServer,
	})
}
