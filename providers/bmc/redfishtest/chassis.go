package redfishtest

import (
	"net/http"
	"time"
)

// Chassis is a machine outside of the service, driven by a system of the service: an accepted
// power-off then has a real effect. It keeps the power, the boot override and the image. The
// service keeps all other state. It is called with the service's lock held.
type Chassis interface {
	State() (State, error)
	Reset(kind string) error // a ResetType
	SetBoot(Override) error
	SetMedia(image string) error // a URL; empty to eject
}

// State is the state of a chassis.
type State struct {
	On     bool
	Up     bool      // the firmware is done, and the booted system runs
	Since  time.Time // of the power state
	Booted string    // BootSourceOverrideTarget of the last boot
	Boot   Override
	Image  string // in the virtual drive
}

// Override is the boot override in the words of the ComputerSystem schema.
type Override struct{ Target, Enabled, Mode string }

// sync copies the state of the chassis.
func (m *system) sync() *fault {
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

// failed returns the response to a press that the chassis refuses.
func failed(err error) *fault {
	return refuse(http.StatusInternalServerError, "OperationFailed", "The chassis refuses: "+err.Error())
}
