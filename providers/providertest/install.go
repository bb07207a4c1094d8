package providertest

import "github.com/holdfast-metal/holdfast/providers"

func installTests() map[string]func(*harness) {
	return map[string]func(*harness){
		"UnknownTokenIsNone": func(h *harness) {
			p := need[providers.Imager](h)
			s, err := p.InstallStatus(h.ctx, h.Machine, h.op("repave").Token())
			h.ok("read install status", err)
			if s.State != providers.WorkNone {
				h.Fatalf("got %+v, want none", s)
			}
		},
		"StartTwiceIsOnce": func(h *harness) {
			p := need[providers.Imager](h)
			if h.Image == "" {
				h.Skip("setup has no Image")
			}
			op, spec := h.op("repave"), providers.InstallSpec{Image: h.Image}
			h.ok("start", p.StartInstall(h.ctx, op, h.Machine, spec))
			h.ok("start again", p.StartInstall(h.ctx, op, h.Machine, spec))
			s := h.installed(p, op, spec)
			if s.State != providers.WorkDone || s.Image != h.Image || s.Progress != 100 {
				h.Fatalf("got %+v, want %q installed", s, h.Image)
			}
			before := h.booted()
			h.ok("start when it is done", p.StartInstall(h.ctx, op, h.Machine, spec))
			if s, err := p.InstallStatus(h.ctx, h.Machine, op.Token()); err != nil || s.State != providers.WorkDone {
				h.Fatalf("got %+v, %v, want an install that is done", s, err)
			}
			if after := h.booted(); after != before {
				h.Fatalf("boot id was %q, is %q: it was installed again", before, after)
			}
			h.counted(op, "install", 1)
			s, err := p.InstallStatus(h.ctx, h.Machine, h.op("repave").Token())
			if err != nil || s.State != providers.WorkNone {
				h.Fatalf("another attempt: got %+v, %v, want none", s, err)
			}
		},
		"NothingToDoIsRefused": func(h *harness) {
			p := need[providers.Imager](h)
			op := h.op("repave")
			h.classed("install nothing", p.StartInstall(h.ctx, op, h.Machine, providers.InstallSpec{}))
			h.counted(op, "install", 0)
		},
	}
}

// installed waits for the end of an install, and does the due actions as the executor does.
// Progress must not decrease.
func (h *harness) installed(
	p providers.Imager, op providers.Op, spec providers.InstallSpec,
) (s providers.InstallStatus) {
	h.Helper()
	last := 0
	h.eventually("end of the install", func() (bool, error) {
		var err error
		s, err = p.InstallStatus(h.ctx, h.Machine, op.Token())
		if err != nil {
			return false, err
		}
		if s.State == providers.WorkNone {
			h.Fatalf("install was started and is unknown: %+v", s)
		}
		if s.Progress < last || s.Progress > 100 {
			h.Fatalf("progress was %d, is %d", last, s.Progress)
		}
		last = s.Progress
		if s.Due != "" && s.State == providers.WorkRunning {
			h.ok(s.Due, p.StartInstall(h.ctx, op, h.Machine, spec))
		}
		return s.State != providers.WorkRunning, nil
	})
	return s
}

// booted waits for the host and returns its boot id. It skips the test if the provider is no
// Inspector.
func (h *harness) booted() (id string) {
	h.Helper()
	i := need[providers.Inspector](h)
	h.eventually("host answers", func() (bool, error) {
		f, err := i.Inspect(h.ctx, h.Machine)
		id = f.BootID
		return f.Reachable, err
	})
	return id
}
