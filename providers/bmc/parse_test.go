package bmc_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/bmc"
)

func TestParseEndpoint(t *testing.T) {
	for in, want := range map[string][]string{
		"10.0.0.7":                           {"https://10.0.0.7", "", "", ""},
		"10.0.0.7:8443":                      {"https://10.0.0.7:8443", "", "", ""},
		"10.0.0.7:623":                       {"https://10.0.0.7:623", "623", "", "ipmi"},
		"fd00::7":                            {"https://[fd00::7]", "", "", ""},
		"[fd00::7]:443":                      {"https://[fd00::7]:443", "", "", ""},
		"bmc-7.example":                      {"https://bmc-7.example", "", "", ""},
		"ipmi://10.0.0.7":                    {"ipmi://10.0.0.7", "623", "", "ipmi"},
		"ipmi://10.0.0.7:6230":               {"ipmi://10.0.0.7:6230", "6230", "", "ipmi"},
		"https://x/redfish/v1/":              {"https://x", "", "", "redfish"},
		"https://x/redfish/v1/Systems/node2": {"https://x", "", "/redfish/v1/Systems/node2", "redfish"},
	} {
		redfish, ipmi, system, only, err := bmc.ParseEndpoint(in)
		if err != nil {
			t.Errorf("%s: %v", in, err)
			continue
		}
		if diff := cmp.Diff(want, []string{redfish, ipmi, system, string(only)}); diff != "" {
			t.Errorf("%s (-want +got):\n%s", in, diff)
		}
	}
}

// Boot flags do not expire after a minute, but end in all other ways: a one-time override is used
// once.
func TestBootFlagsDoNotExpireSoon(t *testing.T) {
	t.Parallel()
	tool, asked := ipmitool(t)
	l := &lab{t: t, m: machine("m-1", "ipmi://127.0.0.1:1"),
		acct: &accounts{is: bmc.Account{User: "admin", Password: "secret"}}, mem: bmc.NewInMemory(), ctx: t.Context()}
	l.p = l.provider(func(c *bmc.Config) { c.Ipmitool, c.CommandTime = tool, 30*time.Second })
	l.power(providers.PowerOn) // steps read before they act
	l.ok("set", l.p.SetBootDevice(l.ctx, op("netboot"), l.m, providers.BootDevice{Mode: "PXE"}))
	var got []string
	for line := range strings.Lines(asked()) {
		if _, command, _ := strings.Cut(strings.TrimSpace(line), " -v "); strings.HasPrefix(command, "raw") ||
			strings.HasPrefix(command, "chassis bootdev") {
			got = append(got, command)
		}
	}
	if diff := cmp.Diff([]string{"raw 0x00 0x08 0x03 0x08", "chassis bootdev pxe"}, got); diff != "" {
		t.Errorf("commands (-want +got):\n%s", diff)
	}
}

func FuzzParseEndpoint(f *testing.F) {
	for _, s := range []string{"10.0.0.7", "https://a:b@c", "ipmi://[::1]:623", "//", "http://x/redfish/v1/Systems/1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		redfish, _, _, _, err := bmc.ParseEndpoint(s)
		if err == nil && (redfish == "" || strings.Contains(redfish, "@")) {
			t.Errorf("ParseEndpoint(%q): got %q", s, redfish)
		}
	})
}
