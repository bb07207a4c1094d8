package redfishtest

import (
	"net/http"
	"time"
)

// Chassis is a machine outside of the service, whose buttons a system of the service presses: with
// it, a power-off that is accepted ends something. It keeps the power, the boot override and the
// image; the service keeps the rest. It is called with the service's lock held.
type Chassis interface {
	State() (State, error)
	Reset(kind string) error // a ResetType
	SetBoot(Override) error
	SetMedia(image string) error // a URL; empty to eject
}

// State is how a chassis is.
type State struct {
	On     bool
	Up     bool      // the firmware is done, and what it has booted runs
	Since  time.Time // of the power state
	Booted string    // the BootSourceOverrideTarget that it came up from
	Boot   Override
	Image  string // in the virtual drive
}

// Override is the boot override in the words of the ComputerSystem schema.
type Override struct{ Target, Enabled, Mode string }

// look takes over how the chassis is now.
func (m *system) look() *fault {
	st, err := m.chassis.State()
	if err != nil {
		return refuse(http.StatusInternalServerError, "InternalError", "The chassis does not answer.")
	}
	now := Override{m.target, m.enabled, m.mode}
	if m.on != st.On || !m.since.Equal(st.Since) || now != st.Boot {
		m.version++
	}
	m.on, m.up, m.since, m.booted = st.On, st.Up, st.Since, st.Booted
	m.target, m.enabled, m.mode = st.Boot.Target, st.Boot.Enabled, st.Boot.Mode
	if v := m.slots["Cd1"]; v != nil {
		v.image = st.Image
	}
	return nil
}

// failed is the answer to a press that the chassis refuses.
func failed(err error) *fault {
	return refuse(http.StatusInternalServerError, "OperationFailed", "The chassis refuses: "+err.Error())
}
