package ironic

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRootDevice(t *testing.T) {
	for rule, want := range map[string]map[string]any{
		"":                               nil,
		"by=smallest":                    nil,
		"/dev/sda":                       {"name": "/dev/sda"},
		"name=nvme0n1":                   {"name": "/dev/nvme0n1"},
		"serial=S4EV, rotational=false":  {"serial": "S4EV", "rotational": false},
		"wwn=0x5000c5,name=/dev/sdb":     {"wwn": "0x5000c5", "name": "/dev/sdb"},
		"rotational=true,serial = S4EV ": {"serial": "S4EV", "rotational": true},
	} {
		got, err := rootDevice(rule)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("rule %q: %v (-want +got):\n%s", rule, err, diff)
		}
	}
	for _, rule := range []string{"by=largest", "by=smallest,rotational=false", "min_size=400G", "model=*PM983*"} {
		if got, err := rootDevice(rule); err == nil || !strings.Contains(err.Error(), rule) {
			t.Errorf("rule %q: got %v, %v, want a refusal", rule, got, err)
		}
	}
}
