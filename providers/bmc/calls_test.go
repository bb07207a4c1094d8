package bmc_test

import (
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-metal/holdfast/providers/bmc"
	"github.com/holdfast-metal/holdfast/providers/bmc/redfishtest"
)

// TestCallsAreCounted checks that each operation is counted once, by maker and by outcome.
func TestCallsAreCounted(t *testing.T) {
	l := newLab(t, redfishtest.Config{Manufacturer: "Dell Inc."}, nil)
	var mu sync.Mutex
	var got []string
	p, err := bmc.New(config(), bmc.Deps{Credentials: l.acct, Called: func(c bmc.Call) {
		mu.Lock()
		defer mu.Unlock()
		if c.Took <= 0 || !slices.Contains(bmc.Vendors(), c.Vendor) || !slices.Contains(bmc.Outcomes(), c.Outcome) {
			t.Errorf("got %+v", c)
		}
		got = append(got, c.Vendor+" "+c.Outcome)
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close(t.Context()) })
	_, err = p.PowerState(t.Context(), l.m)
	l.ok("read the power", err)
	l.acct.set(bmc.Account{User: "admin", Password: "wrong", Version: "2"})
	_, url := serve(t, redfishtest.Config{Manufacturer: "Unheard Of"})
	if _, err = p.PowerState(t.Context(), machine("m-2", url)); err == nil {
		t.Error("wrong password: got no error")
	}
	mu.Lock()
	defer mu.Unlock()
	if d := cmp.Diff([]string{"dell ok", "other auth"}, got); d != "" {
		t.Errorf("calls (-want +got):\n%s", d)
	}
}
