package netbootapi_test

import (
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/httpjson/apitest"
	"github.com/holdfast-metal/holdfast/server/netbootapi"
)

// TestTakeoverByMAC: a neighbor that sends another machine's MAC address, and a caller behind a
// router whose network is not declared, get no token, no work order, and create no machine. The
// refusal is in the audit trail and in the session.
func TestTakeoverByMAC(t *testing.T) {
	link := ""
	cfg := netbootapi.Config{Neighbors: func(ip netip.Addr) string {
		if ip != netip.MustParseAddr("192.0.2.1") {
			t.Errorf("got a lookup of neighbor %v, want the caller", ip)
		}
		return link
	}}
	s := newSiteWith(t, cfg)
	s.image("installer", true, false)
	s.image("debian", false, true)
	s.opens()
	var before string
	for i, is := range []struct{ link, note string }{
		{"52:54:00:66:66:66", "the caller at 192.0.2.1 has MAC address 52:54:00:66:66:66, which is not one of the machine"},
		{"", "a boot script was refused: the caller at 192.0.2.1 has MAC address"}, // once, so that nobody fills the log
	} {
		link = is.link
		if script := s.get(boot); strings.Contains(script, "holdfast.token=") ||
			!strings.Contains(script, "is for the machine with MAC address") {
			t.Errorf("other caller: got\n%s", script)
		}
		if i, _ := s.State().Install("m-1"); !strings.Contains(i.GetNote(), is.note) || i.GetBoots() != 0 {
			t.Errorf("session: got note %q and %d boots, want %q and none", i.GetNote(), i.GetBoots(), is.note)
		}
		if i > 0 && s.Dump() != before {
			t.Error("got a session changed twice by other callers")
		}
		before = s.Dump()
	}
	for _, strange := range []string{"", "52:54:00:66:66:66"} {
		wantAlike(t, s, strange, &link, "its install is open")
	}
	const denied = "holdfast.v1.InstallService/BootMachine machines/m-1 192.0.2.1 BOOT_TAKEOVER"
	if diff := cmp.Diff([]string{denied}, slices.Compact(s.Denied())); diff != "" {
		t.Errorf("audit trail (-want +got):\n%s", diff)
	}
	link = mac
	own := "=Bearer " + s.token()
	for _, link = range []string{"", "52:54:00:66:66:66", mac} {
		want := 403
		if link == mac {
			want = 200
		}
		for _, call := range [][3]string{{"GET", work}, {"POST", work + "/report", `{"status":"started"}`},
			{"POST", work + "/log?offset=0", "hello"}} {
			if a := s.Send(apitest.Expect("", own, call[0], call[1], call[2], 0, "")); a.Status != want {
				t.Errorf("%s %s from %q: got %d %s, want %d", call[0], call[1], link, a.Status, a.Body, want)
			}
		}
	}

	s.ends("repave", holdfastv1.Attempt_SUCCEEDED)
	wantAlike(t, s, "", &link, "it is installed")
	s.LoseLeader(true)
	wantAlike(t, s, "", &link, "there is no leader")

	s = &site{Lab: apitest.Discovering(t, routesWith(cfg)), t: t}
	link = "52:54:00:66:66:66"
	is(t, s.get(boot), "is for the machine with MAC address")
	if _, ok := s.State().MachineByMAC(mac); ok {
		t.Error("got a machine created by another caller")
	}
	link = ""
	is(t, s.get(boot), "no neighbor of this peer")
	link = mac
	is(t, s.get(boot), "was discovered now")
}

// wantAlike checks that a stranger gets the same answer for the MAC address of a machine and for
// one that no machine has, but for the address itself.
func wantAlike(t *testing.T, s *site, strange string, link *string, when string) {
	t.Helper()
	had := *link
	defer func() { *link = had }()
	*link = strange
	for _, more := range []string{"", "&preview", "&arch=arm64"} {
		var scripts []string
		for _, asked := range []string{mac, "02:00:00:00:00:09"} {
			script := s.get("/api/v1/boot?mac=" + asked + more)
			scripts = append(scripts, strings.NewReplacer(asked, "MAC", url.QueryEscape(asked), "MAC").Replace(script))
		}
		if diff := cmp.Diff(scripts[0], scripts[1]); diff != "" || !strings.Contains(scripts[0], "boots its disk") {
			t.Errorf("%s, stranger %q%s: got\n%s\nand for an unknown address (-known +unknown)\n%s", when, strange, more,
				scripts[0], diff)
		}
	}
}
