package bmc_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/bmc/redfishtest"
)

// At a BMC that takes 300 ms for an answer, no effect is late in every try, although discovery,
// login and reads come first, and executors allow half a second per try. Each effect happens once.
func TestEffectsAtSlowBMC(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		before, do func(context.Context, *lab) error
		want       string
	}{
		"press": {nil, func(ctx context.Context, l *lab) error {
			return l.p.SetPower(ctx, op("power"), l.m, providers.ActionHardOff)
		}, "reset ForceOff"},
		"set the boot device": {nil, func(ctx context.Context, l *lab) error {
			return l.p.SetBootDevice(ctx, op("netboot"), l.m, providers.BootDevice{Mode: "PXE", UEFI: true})
		}, "boot Pxe Once UEFI"},
		"insert": {nil, func(ctx context.Context, l *lab) error { return l.p.InsertMedia(ctx, op("media"), l.m, iso) },
			"media_insert " + iso},
		"eject": {func(ctx context.Context, l *lab) error {
			return l.provider(redfishOnly).InsertMedia(ctx, op("media"), l.m, iso)
		},
			func(ctx context.Context, l *lab) error { return l.p.EjectMedia(ctx, op("media"), l.m) }, "media_eject " + iso},
		"identify": {nil,
			func(ctx context.Context, l *lab) error { return l.p.Identify(ctx, op("identify"), l.m, true) }, "identify true"},
		"clear the event log": {nil,
			func(ctx context.Context, l *lab) error { return l.p.ClearEvents(ctx, op("clear"), l.m, "") }, "clear_log "},
		"restart the BMC": {nil, func(ctx context.Context, l *lab) error { return l.p.ResetBMC(ctx, op("reset"), l.m) },
			"bmc_reset "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, redfishtest.Config{}, redfishOnly)
			want := []string{c.want}
			if c.before != nil {
				l.ok("before", c.before(l.ctx, l))
				want = append(l.effects(""), want...)
			}
			l.s.Set(func(q *redfishtest.Quirks) { q.Latency = 300 * time.Millisecond })
			soon := func(context.Context) (time.Time, error) { return time.Now().Add(500 * time.Millisecond), nil }
			tries := 0
			for end := time.Now().Add(time.Minute); ; {
				tries++
				notAfter, _ := soon(l.ctx)
				err := c.do(providers.WithConfirm(providers.WithNotAfter(l.ctx, notAfter), soon), l)
				if err == nil {
					break
				}
				l.class(name, err, providers.Late)
				if time.Now().After(end) {
					t.Fatalf("late in all of %d tries, last error %v", tries, err)
				}
			}
			if diff := cmp.Diff(want, l.effects("")); diff != "" {
				t.Errorf("effects (-want +got):\n%s", diff)
			}
			t.Logf("done in try %d", tries)
		})
	}
}
