package bmc_test

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast-metal/holdfast/providers/bmc"
	"github.com/holdfast-metal/holdfast/providers/bmc/redfishtest"
)

// TestFactsSayWhatIsTrue checks the reasons of a BMC that is not reachable: one that answers oddly,
// has no such machine, refuses the account, or does not answer. The cause is in words.
func TestFactsSayWhatIsTrue(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change       func(*redfishtest.Quirks, *lab)
		reason, says string
	}{
		"an error": {func(q *redfishtest.Quirks, _ *lab) {
			q.Refuse = map[string]redfishtest.Refusal{"GET Systems/1": {Status: 500}}
		}, "BadAnswer", "500"},
		"another machine": {func(_ *redfishtest.Quirks, l *lab) {
			l.m.Spec.BmcEndpoint += "/redfish/v1/Systems/nobody"
		}, "BadAnswer", "nobody"},
		"refused": {func(_ *redfishtest.Quirks, l *lab) {
			l.acct.set(bmc.Account{User: "admin", Password: "wrong"})
		}, "AuthFailed", "401"},
		"silent": {func(q *redfishtest.Quirks, _ *lab) { q.Hang = true }, "Timeout", "no answer"},
		"not there": {func(_ *redfishtest.Quirks, l *lab) {
			l.m.Spec.BmcEndpoint = "http://127.0.0.1:1"
		}, "Unreachable", "refused"},
		"a web server": {func(q *redfishtest.Quirks, _ *lab) {
			q.Missing = []string{"/redfish/v1"}
		}, "BadAnswer", "no Redfish service"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, redfishtest.Config{}, func(c *bmc.Config) {
				c.Protocol = bmc.Redfish
				if tt.reason == "Timeout" {
					c.Timeout = time.Second
				}
			})
			l.s.Set(func(q *redfishtest.Quirks) { tt.change(q, l) })
			f, err := l.p.Inspect(l.ctx, l.m)
			l.ok("inspect", err)
			if f.BMCReachable || f.BMCReason != tt.reason || !strings.Contains(f.BMCMessage, tt.says) {
				t.Errorf("got %+v, want reason %s and a message with %q", f, tt.reason, tt.says)
			}
		})
	}
}
