package bmc_test

import (
	"net"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-metal/holdfast/cluster/freeport"
	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/bmc"
	"github.com/holdfast-metal/holdfast/providers/bmc/redfishtest"
)

// driverOf returns the remembered driver.
func (l *lab) driverOf(key string) bmc.Protocol {
	l.t.Helper()
	m, err := l.mem.Recall(l.ctx, key)
	l.ok("recall", err)
	return m.Driver
}

func TestAutoTakesRedfish(t *testing.T) {
	s := redfishtest.New(redfishtest.Config{})
	h := httptest.NewTLSServer(s.Handler())
	t.Cleanup(h.Close)
	host := strings.TrimPrefix(h.URL, "https://")
	l := &lab{t: t, s: s, url: h.URL, m: machine("m-1", host),
		acct: &accounts{is: bmc.Account{User: "admin", Password: "secret"}}, mem: bmc.NewInMemory(), ctx: t.Context()}
	l.p = l.provider(func(c *bmc.Config) { c.TLS = "insecure" })
	l.power(providers.PowerOn)
	if got := l.driverOf("https://" + host); got != bmc.Redfish {
		t.Errorf("remembered driver: got %q, want redfish", got)
	}
	strict := l.provider(nil)
	_, err := strict.PowerState(l.ctx, machine("m-1", h.URL))
	l.class("untrusted certificate", err, providers.Unsupported)
	if !strings.Contains(err.Error(), "ca_file") {
		t.Errorf("error: got %v, want a remedy", err)
	}
}

// A host without Redfish is driven over IPMI, and the next leader starts with that. AMT and vendor
// ports are not touched, because connections could have side effects.
func TestAutoFallsBackToIPMI(t *testing.T) {
	t.Parallel()
	amt, err := net.Listen("tcp", "127.0.0.1:16992")
	if err != nil {
		t.Skipf("NOT TESTED: %v", err)
	}
	defer func() { _ = amt.Close() }()
	touched := make(chan struct{}, 1)
	go func() {
		if c, err := amt.Accept(); err == nil {
			_ = c.Close()
			touched <- struct{}{}
		}
	}()
	l := newIPMILab(t, ipmiSim)
	port := strings.TrimPrefix(l.m.Spec.BmcEndpoint, "ipmi://127.0.0.1:")
	l.p = l.provider(func(c *bmc.Config) { c.IPMIPort = port })
	l.m.Spec.BmcEndpoint = closedPort(t)
	l.power(providers.PowerOn)
	key := "https://" + l.m.Spec.BmcEndpoint
	if got := l.driverOf(key); got != bmc.IPMI {
		t.Errorf("remembered driver: got %q, want ipmi", got)
	}
	select {
	case <-touched:
		t.Error("got a connection to the port of AMT")
	default:
	}
}

// closedPort returns an address on which nothing listens.
func closedPort(t *testing.T) string {
	t.Helper()
	ports, err := freeport.Claim(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ports.Release() })
	return ports.Address("127.0.0.1")
}

// A refused login is not tried with the other protocol.
func TestAutoStopsAtRefusedLogin(t *testing.T) {
	s := redfishtest.New(redfishtest.Config{})
	h := httptest.NewTLSServer(s.Handler())
	t.Cleanup(h.Close)
	l := &lab{t: t, s: s, m: machine("m-1", strings.TrimPrefix(h.URL, "https://")),
		acct: &accounts{is: bmc.Account{User: "admin", Password: "wrong"}}, mem: bmc.NewInMemory(), ctx: t.Context()}
	ipmi, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ipmi.Close() }()
	l.p = l.provider(func(c *bmc.Config) {
		c.TLS, c.IPMIPort = "insecure", strconv.Itoa(ipmi.LocalAddr().(*net.UDPAddr).Port)
		c.CommandTime = 3 * time.Second // of the try that must not happen
	})
	_, err = l.p.PowerState(l.ctx, l.m)
	l.class("read power", err, providers.Auth)
	if err := ipmi.SetReadDeadline(time.Now().Add(100 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if _, from, err := ipmi.ReadFrom(make([]byte, 1500)); err == nil {
		t.Errorf("got a try over IPMI from %v", from)
	}
}

func TestEndpoints(t *testing.T) {
	for _, c := range []struct{ endpoint, label, want string }{
		{"", "", "is not an address"},
		{"https://admin:hush@10.0.0.7", "", "bmc_credentials_ref"},
		{"ftp://10.0.0.7", "", "scheme ftp"},
		{"http://10.0.0.7", "", "allow_http"},
		{"ipmi://10.0.0.7/x", "", "has a path"},
		{"https://10.0.0.7", "ipmi", "the protocol is set to ipmi"},
		{"10.0.0.7", "amt", `protocol "amt" is not one of`},
	} {
		l := &lab{t: t, acct: &accounts{}, mem: bmc.NewInMemory(), ctx: t.Context()}
		l.p = l.provider(func(c *bmc.Config) { c.AllowHTTP = false })
		m := machine("m-1", c.endpoint)
		m.Labels = map[string]string{bmc.ProtocolLabel: c.label}
		err := l.p.SetPower(l.ctx, op("power"), m, providers.ActionHardOff)
		l.class(c.endpoint, err, providers.Unsupported)
		if !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "hush") {
			t.Errorf("endpoint %q: got %v, want %q", c.endpoint, err, c.want)
		}
	}
}
