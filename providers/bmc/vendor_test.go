package bmc_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/bmc"
	"github.com/holdfast-metal/holdfast/providers/providertest"
)

// rpcService is a BMC service that speaks bmclib's RPC over HTTP, with one machine, rack7-u12. It
// accepts requests signed with its key.
type rpcService struct {
	t   *testing.T
	key string

	mu      sync.Mutex
	on      bool
	at      time.Time // of the last press
	boots   int
	effects []string
	silent  bool // does not answer before the client disconnects
	fail    string
}

// powerTime is the time until a press takes effect.
const powerTime = 20 * time.Millisecond

func (s *rpcService) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		s.t.Error(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.silent {
		s.mu.Unlock()
		<-r.Context().Done()
		s.mu.Lock()
		return
	}
	mac := hmac.New(sha256.New, []byte(s.key))
	mac.Write(body)
	if want := "sha256=" + hex.EncodeToString(mac.Sum(nil)); r.Header.Get("X-BMCLIB-Signature-256") != want {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	var in struct {
		ID     int64
		Host   string
		Method string
		Params struct {
			State, Device       string
			Persistent, EFIBoot bool
		}
	}
	if err := json.Unmarshal(body, &in); err != nil {
		s.t.Error(err)
	}
	out := map[string]any{"id": in.ID, "host": in.Host}
	refuse := func(why string) { out["error"] = map[string]any{"code": 7, "message": why} }
	switch {
	case in.Host != "rack7-u12":
		refuse("no such machine")
	case in.Method == "ping":
	case in.Method == "getPowerState":
		out["result"] = s.power()
	case s.fail != "":
		refuse(s.fail)
	case in.Method == "setPowerState":
		s.effects = append(s.effects, "power "+in.Params.State)
		if on := in.Params.State == "on"; on != s.on {
			s.on, s.at = on, time.Now()
			if on {
				s.boots++
			}
		}
	case in.Method == "setBootDevice":
		effect := "boot " + in.Params.Device
		if in.Params.Persistent {
			effect += " persistent"
		}
		if in.Params.EFIBoot {
			effect += " efi"
		}
		s.effects = append(s.effects, effect)
	default:
		refuse("no such method " + in.Method)
	}
	b, err := json.Marshal(out)
	if err != nil {
		s.t.Error(err)
	}
	_, _ = w.Write(b)
}

// power returns "on", "off", or "changing" for a moment after a press.
func (s *rpcService) power() string {
	switch {
	case time.Since(s.at) < powerTime:
		return "changing"
	case s.on:
		return "on"
	}
	return "off"
}

func (s *rpcService) did() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.effects...)
}

func (s *rpcService) set(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

// rpcLab is a provider that drives the machine of a service.
type rpcLab struct {
	*lab
	service *rpcService
}

func newRPCLab(t *testing.T) *rpcLab {
	s := &rpcService{t: t, key: "secret", on: true, boots: 1}
	h := httptest.NewServer(s)
	t.Cleanup(h.Close)
	l := &rpcLab{service: s, lab: &lab{t: t, m: machine("m-1", "rpc://rack7-u12"),
		acct: &accounts{is: bmc.Account{Password: "secret"}}, mem: bmc.NewInMemory(), ctx: t.Context()}}
	l.p = l.provider(func(c *bmc.Config) { c.RPCURL, c.AllowHTTP, c.OpenTime = h.URL, true, 10*time.Millisecond })
	return l
}

// Inspect adds the facts that a provider with access to the host would have.
func (l *rpcLab) Inspect(ctx context.Context, m providers.Machine) (providers.Facts, error) {
	f, err := l.p.Inspect(ctx, m)
	l.service.mu.Lock()
	defer l.service.mu.Unlock()
	if f.Reachable, f.ReachableReason = l.service.power() == "on", "Service"; f.Reachable {
		f.BootID = strings.Repeat("b", l.service.boots)
	}
	return f, err
}

func TestConformanceOverBmclibRPC(t *testing.T) {
	t.Parallel()
	providertest.Run(t, func(t *testing.T) providertest.Setup {
		l := newRPCLab(t)
		return providertest.Setup{Provider: powerAndBoot{powerOnly{l.p, l.p, l.p, l}, l.p}, Machine: l.m,
			Wait: 20 * time.Second, Poll: 5 * time.Millisecond,
			Missing: machine("missing", "rpc://rack7-u99")}
	})
}

func TestConformanceOverBmclibIpmitool(t *testing.T) {
	t.Parallel()
	l := newIPMILab(t, ipmiSim)
	l.m.Labels[bmc.ProtocolLabel] = "bmclib-ipmitool"
	l.p = l.provider(func(c *bmc.Config) { c.OpenTime, c.CipherSuite = 10*time.Millisecond, "3" })
	providertest.Run(t, func(*testing.T) providertest.Setup {
		return providertest.Setup{Provider: powerAndBoot{powerOnly{l.p, l.p, l.p, l}, l.p}, Machine: l.m,
			Wait: 60 * time.Second, Poll: 10 * time.Millisecond}
	})
}

// TestBmclibEffects checks that an effect is sent once, signed, in the service's format, and not at
// all if it is late or the key is wrong.
func TestBmclibEffects(t *testing.T) {
	t.Parallel()
	l := newRPCLab(t)
	l.ok("boot", l.p.SetBootDevice(l.ctx, op("netboot"), l.m, providers.BootDevice{Mode: "PXE", UEFI: true}))
	l.ok("off", l.p.SetPower(l.ctx, op("power"), l.m, providers.ActionHardOff))
	l.eventually("off", func() bool {
		is, err := l.p.PowerState(l.ctx, l.m)
		return err == nil && is == providers.PowerOff
	})
	if d, err := l.p.BootDevice(l.ctx, l.m); err != nil || d.Mode != "" || !d.ModeHidden {
		t.Errorf("boot device after a press: got %+v, %v, want none", d, err)
	}
	l.class("late", l.p.SetPower(providers.WithNotAfter(l.ctx, time.Now().Add(-time.Second)), op("power"), l.m,
		providers.ActionOn), providers.Late)
	l.service.set(func() { l.service.fail = "the chassis is locked" })
	l.class("refused", l.p.SetPower(l.ctx, op("power"), l.m, providers.ActionOn), providers.Transient)
	l.service.set(func() { l.service.fail, l.service.key = "", "another" })
	l.class("wrong key", l.p.SetPower(l.ctx, op("power"), l.m, providers.ActionOn), providers.Auth)
	if diff := cmp.Diff([]string{"boot pxe efi", "power off"}, l.service.did()); diff != "" {
		t.Errorf("effects (-want +got):\n%s", diff)
	}
}

// TestBmclibSilence checks that a service that does not answer only delays a call by its timeout.
func TestBmclibSilence(t *testing.T) {
	t.Parallel()
	l := newRPCLab(t)
	l.service.set(func() { l.service.silent = true })
	ctx, cancel := context.WithTimeout(l.ctx, 100*time.Millisecond)
	defer cancel()
	_, err := l.p.PowerState(ctx, l.m)
	l.class("silent", err, providers.Timeout)
	l.service.set(func() { l.service.silent = false })
	l.eventually("an answer", func() bool {
		is, err := l.p.PowerState(l.ctx, l.m)
		return err == nil && is == providers.PowerOn
	})
}

// TestBmclibEndpoints checks the driver of a machine, by its address and its label, without probes.
func TestBmclibEndpoints(t *testing.T) {
	t.Parallel()
	l := newRPCLab(t)
	for _, tt := range []struct{ endpoint, label, want string }{
		{"rpc://rack7-u12", "bmclib-amt", "bmc_endpoint is for bmclib-rpc"},
		{"https://10.0.0.1", "bmclib-rpc", "bmc_endpoint is for redfish"},
		{"ipmi://10.0.0.1", "bmclib-dell", "bmc_endpoint is for ipmi"},
		{"rpc://rack7-u12", "bmclib-idrac", `protocol "bmclib-idrac" is not one of`},
		{"rpc://rack7-u12/slot", "", "has a path"},
		{"amt://user:pw@10.0.0.1", "", "contains a user name or password"},
	} {
		m := machine("m-2", tt.endpoint)
		if tt.label != "" {
			m.Labels = map[string]string{bmc.ProtocolLabel: tt.label}
		}
		_, err := l.p.PowerState(l.ctx, m)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s, label %q: got %v, want an error with %q", tt.endpoint, tt.label, err, tt.want)
		}
	}
	if _, err := bmc.ParseConfig([]byte(`{"rpc_url": "http://10.0.0.1/"}`)); err == nil {
		t.Error("rpc_url without TLS: got no error")
	}
}
