// Package bmclib drives machines with the drivers of bmclib that package vendor opens.
//
// It owns the calls of a driver: one at a time, each with a connection of its own, within the
// limits of access to the BMC and in time or not at all. It must not decide when a driver is used,
// and it retries nothing.
package bmclib

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	liberrors "github.com/bmc-toolbox/bmclib/v2/errors"
	"github.com/stmcginnis/gofish/common"

	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/bmc/internal/access"
	"github.com/holdfast-metal/holdfast/providers/bmc/internal/ipmi"
	"github.com/holdfast-metal/holdfast/providers/bmc/vendor"
	"github.com/holdfast-metal/holdfast/providers/internal/text"
)

// Prefix is the prefix of a driver's name as a protocol, in configurations and texts.
const Prefix = "bmclib-"

// Config is one machine, and the driver that reaches it.
type Config struct {
	BMC    access.BMC
	Driver string        // by its name in package vendor
	Reach  vendor.Config // without the account
	Time   time.Duration // limit of a call
}

// Host is one machine behind a driver of bmclib. Such a driver may ignore its context, log in with
// every call, ignore unsupported requests, and report success without an effect. Therefore
// each call has its own connection, which is closed afterwards. A call starts after the previous
// one has returned. The not-after time of an effect is checked right before the driver is called,
// and the result is read back if the driver can. A Host is safe for concurrent use.
type Host struct {
	cfg      Config
	protocol string        // the driver's name with Prefix
	session  chan struct{} // held by the running call

	mu       sync.Mutex
	override providers.BootDevice // last one accepted; its Mode is empty if there is none
}

// New returns the driver of a machine. It connects to nothing.
func New(c Config) *Host {
	return &Host{cfg: c, protocol: Prefix + c.Driver, session: make(chan struct{}, 1)}
}

// call opens a connection, calls the driver, and closes the connection. A driver that does not
// return in time keeps the session, and the next call waits for it: two calls at once could
// interfere.
func (h *Host) call(
	ctx context.Context, what string, effect bool, f func(context.Context, vendor.Driver) error,
) error {
	what = h.protocol + " " + what
	leave, err := h.cfg.BMC.Gate.Enter(ctx, effect)
	if err != nil {
		return err
	}
	select {
	case h.session <- struct{}{}:
	case <-ctx.Done():
		leave()
		return fmt.Errorf("%s: wait for the previous call: %w", what, ctx.Err())
	}
	done := make(chan error, 1)
	go func() { // ends when the driver returns, by its own timeouts
		defer leave()
		defer func() { <-h.session }()
		done <- h.answer(ctx, what, effect, f)
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("%s: the driver has not returned: %w", what, ctx.Err())
	}
}

func (h *Host) answer(
	ctx context.Context, what string, effect bool, f func(context.Context, vendor.Driver) error,
) (err error) {
	calm, cancel := context.WithTimeout(providers.Unhurried(ctx), h.cfg.Time)
	defer cancel()
	cfg := h.cfg.Reach
	if h.cfg.Driver == vendor.Ipmitool {
		if cfg.IpmitoolPath, err = exec.LookPath(cfg.IpmitoolPath); err != nil {
			return ipmi.NoTool(err)
		}
	}
	a, err := h.cfg.BMC.Account(calm)
	if err != nil {
		return err
	}
	if err := h.cfg.BMC.Logins.Begin(calm, a); err != nil {
		return err
	}
	defer h.cfg.BMC.Logins.End()
	cfg.User, cfg.Password = a.User, a.Password
	d, err := vendor.New(h.cfg.Driver, cfg)
	if err != nil {
		return providers.Errorf(providers.Unsupported, what, "%w", err)
	}
	err = d.Open(calm)
	defer func() { _ = d.Close(calm) }() // even a failed Open may have left a session
	if err != nil {
		err = h.vendorError(calm, what+": open", err)
		if providers.ClassOf(err) == providers.Auth {
			h.cfg.BMC.Logins.Done(a, false)
		}
		return err
	}
	h.cfg.BMC.Logins.Done(a, true)
	if !effect {
		return h.vendorError(calm, what, f(calm, d))
	}
	if err := providers.InTime(ctx, what); err != nil {
		return err
	}
	timed, stop := context.WithTimeout(ctx, h.cfg.Time)
	defer stop()
	return h.vendorError(timed, what, f(timed, d))
}

// vendorError classifies an error of a driver. Only an explicit refusal counts as a refused login:
// "failed to log in" may also mean that the BMC is unreachable.
func (h *Host) vendorError(ctx context.Context, what string, err error) error {
	has := func(words ...string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(err.Error(), w) })
	}
	var status *common.Error
	switch {
	case err == nil:
		return nil
	case h.cfg.Driver == vendor.Ipmitool:
		return ipmi.ToolError(ctx, what, err, err.Error())
	case errors.As(err, &status) && status.HTTPReturnedStatusCode == http.StatusUnauthorized,
		has("status code: 401", "401 Unauthorized"):
		return providers.Errorf(providers.Auth, what, "%w", err)
	case errors.Is(err, liberrors.ErrNotImplemented),
		has("requested state type unknown", "only pxe boot device"):
		return providers.Errorf(providers.Unsupported, what, "%w", err)
	case errors.As(err, &status), has("rpc consumer", "status code"):
		return fmt.Errorf("%s: %w", what, access.Answered(err))
	}
	return fmt.Errorf("%s: %w", what, err)
}

// Power reads the power state.
func (h *Host) Power(ctx context.Context) (is providers.PowerState, err error) {
	err = h.call(ctx, "read the power", false, func(ctx context.Context, d vendor.Driver) error {
		said, err := d.PowerStateGet(ctx)
		is = vendorPower(said)
		return err
	})
	return is, err
}

// vendorPower parses the power state of any driver: "on", "On", "Chassis Power is on\n". A state in
// transition is unknown.
func vendorPower(said string) providers.PowerState {
	words := strings.Fields(strings.ToLower(said))
	if len(words) == 0 {
		return providers.PowerUnknown
	}
	switch words[len(words)-1] {
	case "on":
		return providers.PowerOn
	case "off":
		return providers.PowerOff
	}
	return providers.PowerUnknown
}

// SetPower presses the button.
func (h *Host) SetPower(ctx context.Context, a providers.PowerAction) error {
	word := map[providers.PowerAction]string{
		providers.ActionOn:      "on",
		providers.ActionHardOff: "off",
		providers.ActionSoftOff: "soft",
	}[a]
	return h.call(ctx, "press "+word, true, func(ctx context.Context, d vendor.Driver) error {
		ok, err := d.PowerSet(ctx, word)
		if err == nil && !ok {
			err = errNoReason()
		}
		if err == nil && a != providers.ActionSoftOff {
			h.booting()
		}
		return err
	})
}

// booting drops a one-time override after a press.
func (h *Host) booting() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.override.Persistent {
		h.override = providers.BootDevice{}
	}
}

// Boot returns the last accepted boot device, because these drivers cannot read it. The next leader
// knows of none and sets it again.
func (h *Host) Boot(ctx context.Context) (providers.BootDevice, error) {
	if _, err := h.Power(ctx); err != nil { // the BMC must answer for the result to count
		return providers.BootDevice{}, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	d := h.override
	d.ModeHidden = d.Mode == ""
	return d, nil
}

// SetBoot sets the boot device. What the driver accepts cannot be read back.
func (h *Host) SetBoot(ctx context.Context, want providers.BootDevice) error {
	word, ok := map[string]string{"PXE": "pxe", "DISK": "disk", "VIRTUAL_MEDIA": "cdrom"}[want.Mode]
	if !ok {
		return providers.Errorf(providers.Unsupported, "set the boot device",
			"%s has no boot mode %q; it has PXE, DISK, VIRTUAL_MEDIA", h.protocol, text.Clip(want.Mode, 40))
	}
	return h.call(ctx, "boot from "+word, true, func(ctx context.Context, d vendor.Driver) error {
		b, can := d.(vendor.BootSetter)
		if !can {
			return h.cannot("set the boot device")
		}
		ok, err := b.BootDeviceSet(ctx, word, want.Persistent, want.UEFI)
		if err == nil && !ok {
			err = errNoReason()
		}
		if err == nil {
			h.mu.Lock()
			h.override = want
			h.mu.Unlock()
		}
		return err
	})
}

// Inventory reads the parts with their firmware versions, if the driver can.
func (h *Host) Inventory(ctx context.Context) (v *providers.Inventory, err error) {
	err = h.call(ctx, "read the inventory", false, func(ctx context.Context, d vendor.Driver) error {
		reader, can := d.(vendor.Inventory)
		if !can {
			return h.cannot("read the inventory")
		}
		is, err := reader.Inventory(ctx)
		if err == nil {
			v = vendorInventory(is)
		}
		return err
	})
	return v, err
}

// Events returns Unsupported: bmclib only reads event logs over the standard protocols.
func (h *Host) Events(context.Context, string) ([]providers.Event, error) {
	return nil, h.cannot("read the event log")
}

func (h *Host) cannot(what string) error {
	return providers.Errorf(providers.Unsupported, what, "%s does not support it", h.protocol)
}

func errNoReason() error {
	return access.Answered(errors.New("the driver reports failure without a reason"))
}
