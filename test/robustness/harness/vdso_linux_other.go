//go:build linux && !amd64

package harness

import (
	"errors"
	"time"
)

const jumpSize = 0

var wallClock []byte

// vdso is implemented on amd64 only.
type vdso struct {
	mem   interface{ Close() error }
	entry int64
}

var errNoVDSO = errors.New("wall clocks of processes can only be set on amd64")

func openVDSO(int) (*vdso, error) { return nil, errNoVDSO }

func (*vdso) set(time.Duration) error  { return errNoVDSO }
func (*vdso) move(time.Duration) error { return errNoVDSO }
func (*vdso) restore() error           { return errNoVDSO }
