package fake

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-metal/holdfast/providers"
)

// install is an install or a wipe.
type install struct {
	spec    providers.InstallSpec
	started time.Time
	wasOn   bool
	state   providers.WorkState
	why     string
}

// startInstall takes the machine over. Everything that runs on it ends, it is powered on if it was
// off, and it boots the installed image. A running install is superseded.
func (c *call) startInstall(a imageArgs) (any, error) {
	token := c.op.Token()
	if c.installs[token] != nil {
		return nil, nil
	}
	if a.Spec.Image == "" && !a.Spec.Wipe {
		return nil, fmt.Errorf("install has neither an image nor wipe")
	}
	c.current.fail(c.machine, "superseded by "+token)
	i := &install{spec: a.Spec, started: c.now, wasOn: c.target, state: providers.WorkRunning}
	if c.installs == nil {
		c.installs = make(map[string]*install)
	}
	c.installs[token], c.current = i, i
	if a.Spec.Image == "" {
		c.effect(c.op, opWipe, true, "")
	} else {
		c.effect(c.op, opInstall, true, a.Spec.Image)
	}
	c.down(c.now, "Installing")
	if !c.power {
		c.power = true
		if !c.pressed() {
			c.target = true
		}
	}
	c.image, c.cluster, c.net = "", "", nil
	c.say("installer: " + token + "\r\n")
	c.later(c.now.Add(time.Duration(c.fleet.config.InstallTime)), false, func(time.Time) { i.finish(c.machine) })
	return nil, nil
}

// finish ends an install that was not stopped. The host is up with its new image or, after a wipe,
// in its former power state with an empty disk.
func (i *install) finish(m *machine) {
	if i.state != providers.WorkRunning {
		return
	}
	if strings.Contains(i.spec.Image, "corrupt") {
		i.fail(m, fmt.Sprintf("image %q: checksum does not match", i.spec.Image))
		return
	}
	i.state, m.current = providers.WorkDone, nil
	m.next = nil
	if i.spec.Image != "" {
		m.image = i.spec.Image
		m.booted()
		return
	}
	m.state = "NoOperatingSystem"
	if !i.wasOn {
		m.power, m.state = false, "PoweredOff"
		if !m.pressed() {
			m.target = false
		}
	}
}

// fail ends a running install. The disk then has nothing that boots.
func (i *install) fail(m *machine, why string) {
	if i == nil || i.state != providers.WorkRunning {
		return
	}
	i.state, i.why, m.current = providers.WorkFailed, why, nil
	if m.power {
		m.state = "NoOperatingSystem"
	}
}

// pressed reports whether a power press is still pending.
func (m *machine) pressed() bool {
	return slices.ContainsFunc(m.pending, func(e event) bool { return e.press })
}

func (c *call) installStatus(a tokenArgs) (any, error) {
	i := c.installs[a.Token]
	if i == nil {
		return providers.InstallStatus{State: providers.WorkNone}, nil
	}
	s := providers.InstallStatus{State: i.state, Error: i.why}
	switch i.state {
	case providers.WorkDone:
		s.Progress, s.Stage, s.Image = 100, "done", i.spec.Image
	case providers.WorkFailed:
		s.Stage = "failed"
	default:
		s.Progress = min(int(100*c.now.Sub(i.started)/time.Duration(c.fleet.config.InstallTime)), 99)
		s.Stage = stage(s.Progress, i.spec.Image != "")
		s.Erases = s.Progress >= bootedAt
	}
	return s, nil
}

// bootedAt is the percentage at which an installer has booted.
const bootedAt = 10

// stage returns the activity of an installer at a percentage.
func stage(percent int, image bool) string {
	switch {
	case percent < bootedAt:
		return "booting the installer"
	case percent < 25 || !image:
		return "wiping the disk"
	case percent < 80:
		return "writing the image"
	default:
		return "booting the image"
	}
}
