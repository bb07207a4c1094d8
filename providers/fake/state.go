package fake

import (
	"time"

	"github.com/holdfast-metal/holdfast/providers"
)

// MachineState is the true state of a machine, without faults, as GET /machines/{id} returns it.
type MachineState struct {
	MachineID       string               `json:"machine_id"`
	Power           providers.PowerState `json:"power"`
	Reachable       bool                 `json:"reachable"`
	ReachableReason string               `json:"reachable_reason"`
	BootID          string               `json:"boot_id"`
	Boots           int                  `json:"boots"`
	Image           string               `json:"image"`
	BootDevice      string               `json:"boot_device"` // of the next boot
	Media           string               `json:"media"`
	Cluster         string               `json:"cluster"`
	NetworkToken    string               `json:"network_token"`
	Commands        int                  `json:"commands"` // ever started
	Installs        int                  `json:"installs"` // ever started
	Joins           int                  `json:"joins"`    // ever started
	Calls           map[string]int       `json:"calls"`    // of each operation, with any outcome
	AuthFailures    int                  `json:"auth_failures"`
	Overlaps        int                  `json:"overlaps"` // concurrent effects on BMC or disk
	Late            int                  `json:"late"`     // effects refused after their not-after time
	Since           time.Time            `json:"since"`    // first use
}

// State returns the state of a machine, if it was ever used.
func (f *Fleet) State(machineID string) (MachineState, bool) {
	m, ok := f.known(machineID)
	if !ok {
		return MachineState{}, false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.advance(f.config.Now())
	s := MachineState{
		MachineID:    m.id,
		Power:        providers.PowerOff,
		BootID:       m.bootID,
		Boots:        m.boots,
		Image:        m.image,
		BootDevice:   m.boot.Mode,
		Media:        m.media,
		Cluster:      m.cluster,
		Commands:     len(m.commands),
		Installs:     len(m.installs),
		Joins:        len(m.joins),
		Calls:        make(map[string]int, len(m.calls)),
		AuthFailures: m.authFailures,
		Overlaps:     m.overlaps,
		Late:         m.late,
		Since:        m.born.UTC(),
	}
	s.Reachable, s.ReachableReason = m.reachable()
	if m.power {
		s.Power = providers.PowerOn
	}
	if m.next != nil {
		s.BootDevice = m.next.Mode
	}
	if m.net != nil {
		s.NetworkToken = m.net.token
	}
	for name, c := range m.calls {
		s.Calls[name] = c.total
	}
	return s, true
}
