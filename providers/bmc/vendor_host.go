package bmc

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"sync"
	"time"

	liberrors "github.com/bmc-toolbox/bmclib/v2/errors"
	"github.com/stmcginnis/gofish/common"

	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/bmc/vendor"
)

// vendorHost is one machine behind a driver of bmclib. Such a driver may ignore its context, log in
// with every call, drop what it cannot do, and report success for what did not happen: so each call
// has a connection of its own, which is closed; no call begins before the one before it has
// returned; an effect is checked to be in time right before the driver is asked; and what can be
// read back is.
type vendorHost struct {
	driver  Protocol
	cfg     vendor.Config // without an account
	time    time.Duration // of a call
	gate    *gate
	account func(ctx context.Context) (Account, error)
	refused *logins
	session chan struct{} // held by the call that is under way

	mu       sync.Mutex
	override providers.BootDevice // accepted last; the zero Mode: none
}

// vendorOf returns the machine's place behind a driver of bmclib.
func (c *controller) vendorOf(p Protocol, e endpoint) *vendorHost {
	c.state.Lock()
	defer c.state.Unlock()
	h := c.vendors[p]
	if h == nil {
		h = &vendorHost{driver: p, time: c.p.cfg.RequestTime, gate: c.gate, account: c.account, refused: c.refused, session: make(chan struct{}, 1), cfg: vendor.Config{
			Host: e.host, Port: e.port, HTTP: newHTTP(c.p.tls), RPCURL: c.p.cfg.RPCURL, IpmitoolPath: c.p.cfg.Ipmitool, CipherSuite: c.p.cfg.CipherSuite,
		}}
		c.vendors[p] = h
	}
	return h
}

// call opens a connection, asks the driver, and closes the connection. A driver that does not
// return in time keeps the session: the next call waits for it, as two of them at once could do
// what neither was asked for.
func (h *vendorHost) call(ctx context.Context, what string, effect bool, f func(context.Context, vendor.Driver) error) error {
	what = string(h.driver) + " " + what
	leave, err := h.gate.enter(ctx, effect)
	if err != nil {
		return err
	}
	select {
	case h.session <- struct{}{}:
	case <-ctx.Done():
		leave()
		return fmt.Errorf("%s: wait for the call before: %w", what, ctx.Err())
	}
	done := make(chan error, 1)
	go func() { // ends when the driver returns, which its own timeouts see to
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

func (h *vendorHost) answer(ctx context.Context, what string, effect bool, f func(context.Context, vendor.Driver) error) (err error) {
	calm, cancel := context.WithTimeout(providers.Unhurried(ctx), h.time)
	defer cancel()
	cfg := h.cfg
	if h.driver.vendor() == vendor.Ipmitool {
		if cfg.IpmitoolPath, err = exec.LookPath(cfg.IpmitoolPath); err != nil {
			return noIpmitool(err)
		}
	}
	a, err := h.account(calm)
	if err != nil {
		return err
	}
	if err := h.refused.begin(calm, a); err != nil {
		return err
	}
	defer h.refused.end()
	cfg.User, cfg.Password = a.User, a.Password
	d, err := vendor.New(h.driver.vendor(), cfg)
	if err != nil {
		return providers.Errorf(providers.Unsupported, what, "%w", err)
	}
	err = d.Open(calm)
	defer func() { _ = d.Close(calm) }() // also after a failed Open, which may have left a session
	if err != nil {
		err = h.vendorError(calm, what+": open", err)
		if providers.ClassOf(err) == providers.Auth {
			h.refused.done(a, false)
		}
		return err
	}
	h.refused.done(a, true)
	if !effect {
		return h.vendorError(calm, what, f(calm, d))
	}
	if err := providers.InTime(ctx, what); err != nil {
		return err
	}
	timed, stop := context.WithTimeout(ctx, h.time)
	defer stop()
	return h.vendorError(timed, what, f(timed, d))
}

// vendorError puts an error of a driver into a class, if it has a class of its own. Only a refused
// login counts as one: a driver that says "failed to log in" says it of a BMC that is away, too.
func (h *vendorHost) vendorError(ctx context.Context, what string, err error) error {
	var status *common.Error
	switch {
	case err == nil:
		return nil
	case h.driver.vendor() == vendor.Ipmitool:
		return ipmiError(ctx, what, err, err.Error())
	case errors.As(err, &status) && status.HTTPReturnedStatusCode == http.StatusUnauthorized,
		strings.Contains(err.Error(), "status code: 401"), strings.Contains(err.Error(), "401 Unauthorized"):
		return providers.Errorf(providers.Auth, what, "%w", err)
	case errors.Is(err, liberrors.ErrNotImplemented), strings.Contains(err.Error(), "requested state type unknown"), strings.Contains(err.Error(), "only pxe boot device"):
		return providers.Errorf(providers.Unsupported, what, "%w", err)
	case errors.As(err, &status), strings.Contains(err.Error(), "rpc consumer"), strings.Contains(err.Error(), "status code"):
		return fmt.Errorf("%s: %w", what, &answered{err})
	}
	return fmt.Errorf("%s: %w", what, err)
}

func (h *vendorHost) power(ctx context.Context) (is providers.PowerState, err error) {
	err = h.call(ctx, "read the power", false, func(ctx context.Context, d vendor.Driver) error {
		said, err := d.PowerStateGet(ctx)
		is = vendorPower(said)
		return err
	})
	return is, err
}

// vendorPower reads a power state in the words of any driver: "on", "On", "Chassis Power is on\n".
// What is on its way is unknown.
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

func (h *vendorHost) setPower(ctx context.Context, a providers.PowerAction) error {
	word := map[providers.PowerAction]string{providers.ActionOn: "on", providers.ActionHardOff: "off", providers.ActionSoftOff: "soft"}[a]
	return h.call(ctx, "press "+word, true, func(ctx context.Context, d vendor.Driver) error {
		ok, err := d.PowerSet(ctx, word)
		if err == nil && !ok {
			err = &answered{errors.New("the driver answers that it did not happen, and not why")}
		}
		if err == nil && a != providers.ActionSoftOff {
			h.booting()
		}
		return err
	})
}

// booting ends an override for one boot: the power is pressed.
func (h *vendorHost) booting() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.override.Persistent {
		h.override = providers.BootDevice{}
	}
}

// boot returns what was accepted last: these drivers cannot read the boot device. The next leader
// knows of none, and sets it again.
func (h *vendorHost) boot(ctx context.Context) (providers.BootDevice, error) {
	if _, err := h.power(ctx); err != nil { // so that a BMC that does not answer is not taken for one that does
		return providers.BootDevice{}, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	d := h.override
	d.ModeHidden = d.Mode == ""
	return d, nil
}

func (h *vendorHost) setBoot(ctx context.Context, want providers.BootDevice) error {
	word, ok := map[string]string{"PXE": "pxe", "DISK": "disk", "VIRTUAL_MEDIA": "cdrom"}[want.Mode]
	if !ok {
		return providers.Errorf(providers.Unsupported, "set the boot device", "%s has no boot mode %q; it has PXE, DISK, VIRTUAL_MEDIA", h.driver, clip(want.Mode, 40))
	}
	return h.call(ctx, "boot from "+word, true, func(ctx context.Context, d vendor.Driver) error {
		b, can := d.(vendor.BootSetter)
		if !can {
			return providers.Errorf(providers.Unsupported, "set the boot device", "%s cannot do it", h.driver)
		}
		ok, err := b.BootDeviceSet(ctx, word, want.Persistent, want.UEFI)
		if err == nil && !ok {
			err = &answered{errors.New("the driver answers that it did not happen, and not why")}
		}
		if err == nil {
			h.mu.Lock()
			h.override = want
			h.mu.Unlock()
		}
		return err
	})
}

// inventory reads the hardware with the versions of its firmware, where the driver can.
func (h *vendorHost) inventory(ctx context.Context) (v *Inventory, err error) {
	err = h.call(ctx, "read the inventory", false, func(ctx context.Context, d vendor.Driver) error {
		reader, can := d.(vendor.Inventory)
		if !can {
			return providers.Errorf(providers.Unsupported, "read the inventory", "%s cannot do it", h.driver)
		}
		is, err := reader.Inventory(ctx)
		if err == nil {
			v = vendorInventory(is)
		}
		return err
	})
	return v, err
}

// events is a part of reader that bmclib has for the standard protocols alone.
func (h *vendorHost) events(context.Context) ([]Event, error) {
	return nil, providers.Errorf(providers.Unsupported, "read the event log", "%s cannot do it", h.driver)
}

func (h *vendorHost) progress(context.Context) (Progress, error) { return Progress{}, nil }
