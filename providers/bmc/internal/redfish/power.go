package redfish

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/bmc/internal/access"
)

// Power reads the power state. During a transition, or while paused, it is unknown: poll again.
func (h *Host) Power(ctx context.Context) (providers.PowerState, error) {
	s, err := h.read(ctx)
	if err != nil {
		return providers.PowerUnknown, err
	}
	return s.state(), nil
}

// state converts the power state.
func (s *computerSystem) state() providers.PowerState {
	switch s.PowerState {
	case "On":
		return providers.PowerOn
	case "Off":
		return providers.PowerOff
	}
	return providers.PowerUnknown
}

// SetPower presses the button. The address of the action and its allowed values are kept: an effect
// has half a second, and some services need longer for a single response.
func (h *Host) SetPower(ctx context.Context, a providers.PowerAction) error {
	want := providers.PowerOff
	if a == providers.ActionOn {
		want = providers.PowerOn
	}
	prepare := providers.Unhurried(ctx)
	s, err := h.known(prepare, time.Hour)
	if err != nil {
		return err
	}
	t, err := h.resetType(prepare, s, a)
	// Some services only show the values that fit the state at that time.
	if providers.ClassOf(err) == providers.Unsupported {
		if s, err = h.read(prepare); err == nil {
			t, err = h.resetType(prepare, s, a)
		}
		if err != nil && s != nil && s.state() == want {
			return nil
		}
	}
	if err != nil {
		return err
	}
	// Redfish 1.0 services may omit the target.
	target := cmp.Or(s.Actions.Reset.Target, s.ODataID+"/Actions/ComputerSystem.Reset")
	body := map[string]string{"ResetType": t}
	_, err = h.c.do(ctx, request{method: http.MethodPost, path: target, body: body})
	// Some services return an error if the machine is already in that state. Nothing was done then.
	if statusOf(err) != 0 && providers.ClassOf(access.Classify("", err, true)) != providers.Auth {
		if is, rerr := h.Power(prepare); rerr == nil && is == want {
			return nil
		}
	}
	return err
}

// resetType returns the ResetType for a power action.
func (h *Host) resetType(ctx context.Context, s *computerSystem, a providers.PowerAction) (string, error) {
	types, err := h.resetTypes(ctx, s.Actions.Reset)
	if err != nil {
		return "", err
	}
	t, err := pickReset(types, a)
	if r := s.Actions.Reset; providers.ClassOf(err) == providers.Unsupported && len(r.Types) > 0 && r.Info != "" {
		// Two lists that differ: some firmware has a mistake in the first one.
		r.Types = nil
		more, unread := h.resetTypes(ctx, r)
		switch {
		case unread != nil && providers.ClassOf(access.Classify("", unread, false)) != providers.Unsupported:
			return "", unread
		case unread == nil && len(more) > 0:
			return pickReset(more, a)
		}
	}
	return t, err
}

// pickReset returns the ResetType for a power action among the allowed ones.
func pickReset(types []string, a providers.PowerAction) (string, error) {
	switch a {
	case providers.ActionOn:
		return pick("turn on", types, "On", "ForceOn")
	case providers.ActionHardOff:
		return pick("turn off hard", types, "ForceOff")
	case providers.ActionSoftOff:
		return pick("turn off softly", types, "GracefulShutdown")
	}
	return "", access.UnknownAction(a)
}

// Facts reads the system and fills in the facts that it shows.
func (h *Host) Facts(ctx context.Context, f *providers.Facts) error {
	s, err := h.read(ctx)
	if err == nil {
		s.facts(f)
	}
	return err
}

// facts fills in the facts that a system shows.
func (s *computerSystem) facts(f *providers.Facts) {
	f.BMCReachable, f.BMCReason, f.Power = true, "RedfishOK", s.state()
	at := s.BootProgress.LastState
	switch {
	case s.PowerState == "Off":
		f.ReachableReason, f.ReachableUnknown = "PoweredOff", false
	case at == "OSRunning":
		f.Reachable, f.ReachableReason, f.ReachableUnknown = true, "OSRunning", false
		f.BootID = s.LastReset
	case at == "":
	case s.boots:
		f.ReachableReason, f.ReachableUnknown = at, false
	default:
		f.ReachableReason = providers.BootNotReported
	}
}

// bootShown bounds how long an unchanged boot progress shows that the host is still booting.
const bootShown = 5 * time.Minute

// progressWords returns the words of the schema that matter to us.
func progressWords() []string { return append(postWords(), "OSRunning") }

// postWords returns the boot progress of the firmware's self test.
func postWords() []string {
	return []string{
		"PrimaryProcessorInitializationStarted",
		"BusInitializationStarted",
		"MemoryInitializationStarted",
		"SecondaryProcessorInitializationStarted",
		"PCIResourceConfigStarted",
	}
}

// inPOST reports whether a boot progress is one of the firmware's self test, which ends within
// minutes. The later ones are the last that some vendors ever report.
func inPOST(progress string) bool { return slices.Contains(postWords(), progress) }

// booting is the boot progress of a system as it was last read, and when it changed.
type booting struct {
	progress string
	changed  time.Time // zero: it has not changed since the first reading
}

// next returns the boot progress after another reading, and whether it shows that the host is
// booting. A state proves that only for a while after it has changed.
func (b booting) next(progress string, now time.Time) (_ booting, boots bool) {
	if progress != b.progress {
		seen := b.progress != "" || inPOST(progress)
		if b = (booting{progress: progress}); seen {
			b.changed = now
		}
	}
	return b, !b.changed.IsZero() && now.Sub(b.changed) < bootShown
}
