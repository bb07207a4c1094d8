package bmc_test

import (
	"net/http"
	"strconv"
	"testing"

	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/bmc/redfishtest"
)

// Another program that uses the same account keeps its session, whatever happens to our logins.
// Only a BMC without room for another session is cleared.
func TestForeignSessionsAreKept(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		quirk func(*redfishtest.Quirks)
		want  int // sessions after we have one
	}{
		"good login":            {func(*redfishtest.Quirks) {}, 2},
		"busy BMC":              {func(q *redfishtest.Quirks) { q.BusyLogins = 1 }, 2},
		"answer of login lost":  {func(q *redfishtest.Quirks) { q.DropLogins = 1 }, 2},
		"several answers lost":  {func(q *redfishtest.Quirks) { q.DropLogins = 3 }, 2},
		"no room for a session": {func(q *redfishtest.Quirks) { q.SessionLimit = 1 }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, redfishtest.Config{}, redfishOnly)
			l.s.OpenSession("admin")
			l.s.Set(tt.quirk)
			l.power(providers.PowerOn)
			if n := l.s.Sessions(); n != tt.want {
				t.Errorf("got %d sessions, want %d", n, tt.want)
			}
			l.ok("close", l.p.Close(l.ctx))
			if n := l.s.Sessions(); n != tt.want-1 {
				t.Errorf("closed: got %d sessions, want %d", n, tt.want-1)
			}
		})
	}
}

// A session is used and ended, however the service returns its path. If it returns none, there is
// one session, not another one for each operation. A service that takes no session is used without
// one.
func TestOddLogins(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		quirk func(*redfishtest.Quirks)
		want  int // sessions at the end
	}{
		"id as the path":      {func(q *redfishtest.Quirks) { q.SessionLocation = "id" }, 0},
		"id in the body":      {func(q *redfishtest.Quirks) { q.SessionLocation = "body" }, 0},
		"no path":             {func(q *redfishtest.Quirks) { q.SessionLocation = "none" }, 0},
		"no token":            {func(q *redfishtest.Quirks) { q.SessionLocation = "no token" }, 0},
		"method not allowed":  {func(q *redfishtest.Quirks) { q.LoginStatus = http.StatusMethodNotAllowed }, 0},
		"sessions not theirs": {func(q *redfishtest.Quirks) { q.LoginStatus = http.StatusNotImplemented }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, redfishtest.Config{}, redfishOnly)
			l.s.Set(tt.quirk)
			for range 3 {
				_, err := l.p.PowerState(l.ctx, l.m)
				l.ok("read the power", err)
				if n := l.s.Sessions(); n > 1 {
					t.Fatalf("got %d sessions, want at most one", n)
				}
			}
			l.ok("close", l.p.Close(l.ctx))
			if n := l.s.Sessions(); n != tt.want {
				t.Errorf("got %d sessions at the end, want %d", n, tt.want)
			}
		})
	}
}

// A refused login is one that the service refuses for the account, not for something else.
func TestRefusalsOfLogins(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		status int
		code   string
		want   providers.Class
	}{
		{http.StatusUnauthorized, "Base.1.8.NoValidSession", providers.Auth},
		{http.StatusForbidden, "", providers.Auth},
		{http.StatusForbidden, "OemLicenseNotPassed", providers.Unsupported},
		{http.StatusForbidden, "ResourceNotReadyRetry", providers.Transient},
		{http.StatusInternalServerError, "", providers.Transient},
		{http.StatusBadRequest, "", providers.Transient},
	} {
		t.Run(strconv.Itoa(tt.status)+" "+tt.code, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, redfishtest.Config{}, redfishOnly)
			l.s.Set(func(q *redfishtest.Quirks) { q.LoginStatus, q.LoginCode = tt.status, tt.code })
			for range 3 { // more often than an account may be refused
				_, err := l.p.PowerState(l.ctx, l.m)
				l.class("read the power", err, tt.want)
			}
			l.s.Set(func(q *redfishtest.Quirks) { q.LoginStatus = 0 })
			if tt.want != providers.Auth {
				l.power(providers.PowerOn)
			}
		})
	}
}

// A press that the BMC refuses for now succeeds later, and a refusal says nothing about the
// password.
func TestRefusedPress(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		refusal redfishtest.Refusal
		want    providers.Class
	}{
		{redfishtest.Refusal{Status: 400, Code: "PSU501"}, providers.Transient},
		{redfishtest.Refusal{Status: 403, Code: "HostLockdown"}, providers.Transient},
		{redfishtest.Refusal{Status: 404}, providers.Transient},
		{redfishtest.Refusal{Status: 403}, providers.Transient},
		{redfishtest.Refusal{Status: 403, Code: "OemLicenseNotPassed"}, providers.Unsupported},
		{redfishtest.Refusal{Status: 400, Code: "ActionNotSupported"}, providers.Unsupported},
		{redfishtest.Refusal{Status: 501}, providers.Unsupported},
	} {
		t.Run(strconv.Itoa(tt.refusal.Status)+" "+tt.refusal.Code, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, redfishtest.Config{}, redfishOnly)
			l.s.Set(func(q *redfishtest.Quirks) {
				q.Refuse = map[string]redfishtest.Refusal{"POST ComputerSystem.Reset": tt.refusal}
			})
			for range 3 {
				l.class("press", l.p.SetPower(l.ctx, op("power"), l.m, providers.ActionHardOff), tt.want)
			}
			l.s.Set(func(q *redfishtest.Quirks) { q.Refuse = nil })
			l.ok("press", l.p.SetPower(l.ctx, op("power"), l.m, providers.ActionHardOff))
		})
	}
}

// Some firmware has a mistake in its list of resets, and the right values in its ActionInfo.
func TestSoftOffFromActionInfo(t *testing.T) {
	t.Parallel()
	l := newLab(t, redfishtest.Config{}, redfishOnly)
	l.s.Set(func(q *redfishtest.Quirks) {
		q.ShownResetTypes = []string{"On", "ForceOff", "GracefulShutdownGracefulRestart"}
	})
	l.ok("soft off", l.p.SetPower(l.ctx, op("power"), l.m, providers.ActionSoftOff))
	if got := l.effects("reset"); len(got) != 1 || got[0] != "reset GracefulShutdown" {
		t.Errorf("got effects %q, want the soft off alone", got)
	}
}

// A boot mode that is read-only and set already does not keep the boot device from being set.
func TestReadOnlyBootMode(t *testing.T) {
	t.Parallel()
	for _, status := range []int{400, 403, 405, 409, 422, 500} {
		t.Run(strconv.Itoa(status), func(t *testing.T) {
			t.Parallel()
			l := newLab(t, redfishtest.Config{}, redfishOnly)
			l.s.Set(func(q *redfishtest.Quirks) { q.RefuseMode, q.ModeStatus = true, status })
			l.ok("set", l.p.SetBootDevice(l.ctx, op("netboot"), l.m, providers.BootDevice{Mode: "PXE", UEFI: true}))
			l.class("another mode", l.p.SetBootDevice(l.ctx, op("netboot"), l.m, providers.BootDevice{Mode: "DISK"}),
				providers.Unsupported)
		})
	}
}

// A host of which the BMC never reports more than a late state of the firmware is not known to be
// down.
func TestUnchangedBootProgress(t *testing.T) {
	t.Parallel()
	for _, state := range []string{"SystemHardwareInitializationComplete", "OSBootStarted", "SetupEntered"} {
		l := newLab(t, redfishtest.Config{}, redfishOnly)
		l.s.Set(func(q *redfishtest.Quirks) { q.Progress = state })
		f, err := l.p.Inspect(l.ctx, l.m)
		l.ok("inspect", err)
		if f.Reachable || !f.ReachableUnknown || !f.HostUnobservable() {
			t.Errorf("%s: got facts %+v, want an unobservable host", state, f)
		}
	}
}
