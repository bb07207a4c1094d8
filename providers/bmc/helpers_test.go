package bmc_test

import (
	"context"
	"log/slog"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/bmc"
	"github.com/holdfast-metal/holdfast/providers/bmc/redfishtest"
)

// accounts are the credentials of a test, which can be changed.
type accounts struct {
	mu    sync.Mutex
	is    bmc.Account
	asked int
}

func (a *accounts) Account(context.Context, providers.Machine) (bmc.Account, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked++
	return a.is, nil
}

func (a *accounts) set(is bmc.Account) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.is = is
}

// lab is a BMC and a provider that drives it.
type lab struct {
	t    *testing.T
	s    *redfishtest.Service
	url  string
	p    *bmc.Provider
	m    providers.Machine
	acct *accounts
	mem  *bmc.InMemory
	ctx  context.Context
}

func machine(id, endpoint string) providers.Machine {
	return &holdfastv1.Machine{MachineId: id, Spec: &holdfastv1.MachineSpec{BmcEndpoint: endpoint}}
}

// serve starts a Redfish service.
func serve(t *testing.T, c redfishtest.Config) (*redfishtest.Service, string) {
	t.Helper()
	s := redfishtest.New(c)
	h := httptest.NewServer(s.Handler())
	t.Cleanup(func() {
		s.Close()
		h.Close()
	})
	return s, h.URL
}

func config() bmc.Config {
	return bmc.Config{AllowHTTP: true, Settle: 200 * time.Millisecond}
}

func newLab(t *testing.T, sc redfishtest.Config, change func(*bmc.Config)) *lab {
	t.Helper()
	s, url := serve(t, sc)
	l := &lab{t: t, s: s, url: url, m: machine("m-1", url),
		acct: &accounts{is: bmc.Account{User: "admin", Password: "secret"}}, mem: bmc.NewInMemory(), ctx: t.Context()}
	l.p = l.provider(change)
	return l
}

// provider returns another provider for the same BMC with the same memory, as of the next leader.
func (l *lab) provider(change func(*bmc.Config)) *bmc.Provider {
	l.t.Helper()
	c := config()
	if change != nil {
		change(&c)
	}
	p, err := bmc.New(c, bmc.Deps{Credentials: l.acct, Memory: l.mem,
		Log: slog.New(slog.NewTextHandler(l.t.Output(), nil))})
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_ = p.Close(ctx)
	})
	return p
}

func op(step string) providers.Op {
	return providers.Op{RunID: "r-1", Step: step, Attempt: 1, Epoch: 1}
}

// ok fails the test on an error.
func (l *lab) ok(name string, err error) {
	l.t.Helper()
	if err != nil {
		l.t.Fatalf("%s: %v", name, err)
	}
}

// class checks the class of an error.
func (l *lab) class(name string, err error, want providers.Class) {
	l.t.Helper()
	if err == nil || providers.ClassOf(err) != want {
		l.t.Fatalf("%s: got %v (class %s), want class %s", name, err, providers.ClassOf(err), want)
	}
}

// eventually polls until ok.
func (l *lab) eventually(name string, ok func() bool) {
	l.t.Helper()
	for end := time.Now().Add(20 * time.Second); !ok(); {
		if time.Now().After(end) {
			l.t.Fatalf("wait for %s: timed out after 20s", name)
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-l.ctx.Done():
		}
	}
}

func (l *lab) power(want providers.PowerState) {
	l.t.Helper()
	l.eventually("power "+string(want), func() bool {
		got, err := l.p.PowerState(l.ctx, l.m)
		return err == nil && got == want
	})
}
