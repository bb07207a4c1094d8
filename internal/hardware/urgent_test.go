package hardware

import (
	"testing"
	"time"

	"github.com/holdfast-metal/holdfast/providers/bmc"
)

func TestUrgent(t *testing.T) {
	known := bmc.Memo{Driver: bmc.Redfish, Session: "/s/1"}
	login := []bmc.Login{{From: "10.0.0.1"}}
	for name, c := range map[string]struct {
		now  bmc.Memo
		want bool
	}{
		"another session":     {bmc.Memo{Driver: bmc.Redfish, Session: "/s/2"}, true},
		"a session that ends": {bmc.Memo{Driver: bmc.Redfish}, false},
		"another driver":      {bmc.Memo{Driver: bmc.IPMI, Session: "/s/1"}, false},
		"silent":              {bmc.Memo{Driver: bmc.Redfish, Session: "/s/1", OpenUntil: time.Unix(9, 0)}, false},
		"a login begins":      {bmc.Memo{Driver: bmc.Redfish, Session: "/s/1", Logins: login}, true},
		"one more is owed":    {bmc.Memo{Driver: bmc.Redfish, Session: "/s/1", Owed: []string{"/s/0"}}, true},
		"refused":             {bmc.Memo{Driver: bmc.Redfish, Session: "/s/1", Refused: 1, RefusedWith: "v1"}, true},
		"reset":               {bmc.Memo{Driver: bmc.Redfish, Session: "/s/1", ResetAt: time.Unix(9, 0)}, true},
	} {
		if got := urgent(known, c.now); got != c.want {
			t.Errorf("%s: got urgent %v, want %v", name, got, c.want)
		}
	}
}
