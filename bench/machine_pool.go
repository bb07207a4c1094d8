package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-metal/holdfast/bench/contest"
	"github.com/holdfast-metal/holdfast/bench/load"
	"github.com/holdfast-metal/holdfast/internal/wait"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// poolName is the pool of all agents.
const poolName = "bench"

func newAgent(i int, token string) load.Agent {
	return load.Agent{ID: fmt.Sprintf("m-%06d", i), Token: token, Pool: poolName}
}

// racks is the number of racks of a fleet.
const racks = 100

// machineID returns the id of the i-th machine of a fleet.
func machineID(i int) string { return fmt.Sprintf("b-%07d", i) }

// anyMachine returns the id of a random machine of the first n.
func anyMachine(n int) string { return machineID(rand.IntN(n)) } //nolint:gosec // no secret

// newMachine returns the i-th machine of a fleet, with a spec of about 200 bytes.
func newMachine(i int) *holdfastv1.Machine {
	mac := fmt.Sprintf("02:00:%02x:%02x:%02x:%02x", i>>24&0xff, i>>16&0xff, i>>8&0xff, i&0xff)
	return &holdfastv1.Machine{
		MachineId: machineID(i),
		Labels:    map[string]string{"env": "bench", "rack": "r" + strconv.Itoa(i%racks)},
		Spec: &holdfastv1.MachineSpec{
			SshEndpoint: fmt.Sprintf("10.%d.%d.%d:22", i>>16&0xff, i>>8&0xff, i&0xff),
			BmcEndpoint: fmt.Sprintf("https://10.%d.%d.%d", 100+i>>16&0x7f, i>>8&0xff, i&0xff),
			Rack:        "r" + strconv.Itoa(i%racks), Serial: fmt.Sprintf("SN%09d", i), MacAddresses: []string{mac},
		},
	}
}

// machinePool holds machines that were created before the measurement.
type machinePool struct {
	*lab
	made  int
	taken atomic.Int64
}

// fill creates machines until n are unused.
func (s *machinePool) fill(ctx context.Context, n int) error {
	missing := n - (s.made - int(s.taken.Load()))
	if missing <= 0 {
		return nil
	}
	from := s.made
	err := each(ctx, missing, func(ctx context.Context, i int) error {
		for try := 0; ; try++ {
			m := newMachine(from + i)
			_, err := s.client.Machines().RegisterMachine(ctx, &holdfastv1.RegisterMachineRequest{Machine: m})
			if err == nil || status.Code(err) == codes.AlreadyExists {
				return nil
			}
			if try == registerTries || ctx.Err() != nil {
				return fmt.Errorf("register machine %s: %w", m.GetMachineId(), err)
			}
			if err := wait.Sleep(ctx, time.Second); err != nil { // an election
				return err
			}
		}
	})
	s.made += missing
	return err
}

// take returns an unused machine, or contest.ErrEnough if there is none.
func (s *machinePool) take() (string, error) {
	i := int(s.taken.Add(1)) - 1
	if i >= s.made {
		s.taken.Add(-1)
		return "", contest.ErrEnough
	}
	return machineID(i), nil
}
