package peertls_test

import (
	"crypto/x509"
	"net/url"
	"strings"
	"testing"

	"github.com/holdfast-metal/holdfast/cluster/peertls"
)

func TestCheckAddress(t *testing.T) {
	for _, tt := range []struct {
		addr          string
		listens, want bool
	}{
		{"10.0.0.1:7400", false, true},
		{"[fd00::7]:7400", false, true},
		{"peer-1.example.:7400", false, true},
		{"n_1:7400", false, true},
		{":7400", true, true},
		{":7400", false, false},
		{"0.0.0.0:7400", true, true},
		{"127.0.0.1:0", true, true},
		{"127.0.0.1:0", false, false},
		{"10.0.0.300:7400", true, false},
		{"10.0.1:7400", true, false},
		{"0x7f000001:7400", true, false},
		{"2130706433:7400", false, false},
		{"224.0.0.1:7400", true, false},
		{"[ff02::1]:7400", true, false},
		{"[fe80::1%eth0]:7400", true, false},
		{"-n1:7400", true, false},
		{"n..1:7400", true, false},
		{"n 1:7400", true, false},
		{"http://n1:7400", true, false},
		{"n1:65536", true, false},
		{"n1", true, false},
		{"", true, false},
	} {
		if err := peertls.CheckAddress(tt.addr, tt.listens); (err == nil) != tt.want {
			t.Errorf("%q, listens %t: got %v, want valid %t", tt.addr, tt.listens, err, tt.want)
		}
	}
}

func TestPeerID(t *testing.T) {
	for _, tc := range []struct {
		name        string
		uris        []string
		cluster, id string // empty if it is not a peer
	}{
		{"a peer", []string{"spiffe://holdfast/prod/peer/n1"}, "prod", "n1"},
		{"all characters of a name", []string{"spiffe://holdfast/Prod-1.a_b/peer/n.1-_X"}, "Prod-1.a_b", "n.1-_X"},
		{"no name", nil, "", ""},
		{"two names", []string{"spiffe://holdfast/prod/peer/n1", "spiffe://holdfast/prod/peer/n2"}, "", ""},
		{"another name beside it", []string{"spiffe://holdfast/prod/peer/n1", "https://example.org"}, "", ""},
		{"another trust domain", []string{"spiffe://example.org/prod/peer/n1"}, "", ""},
		{"domain with the same prefix", []string{"spiffe://holdfast.org/prod/peer/n1"}, "", ""},
		{"another scheme", []string{"https://holdfast/prod/peer/n1"}, "", ""},
		{"a CA's", []string{"spiffe://holdfast/prod"}, "", ""},
		{"not a peer", []string{"spiffe://holdfast/prod/agent/n1"}, "", ""},
		{"too short", []string{"spiffe://holdfast/prod/peer"}, "", ""},
		{"no id", []string{"spiffe://holdfast/prod/peer/"}, "", ""},
		{"no cluster", []string{"spiffe://holdfast//peer/n1"}, "", ""},
		{"too long", []string{"spiffe://holdfast/prod/peer/n1/x"}, "", ""},
		{"with an end slash", []string{"spiffe://holdfast/prod/peer/n1/"}, "", ""},
		{"up", []string{"spiffe://holdfast/prod/peer/.."}, "", ""},
		{"escaped", []string{"spiffe://holdfast/prod/peer/n%31"}, "", ""},
		{"an escaped slash", []string{"spiffe://holdfast/prod%2Fpeer/peer/n1"}, "", ""},
		{"a port", []string{"spiffe://holdfast:1/prod/peer/n1"}, "", ""},
		{"a user", []string{"spiffe://x@holdfast/prod/peer/n1"}, "", ""},
		{"a query", []string{"spiffe://holdfast/prod/peer/n1?x"}, "", ""},
		{"an empty query", []string{"spiffe://holdfast/prod/peer/n1?"}, "", ""},
		{"a fragment", []string{"spiffe://holdfast/prod/peer/n1#x"}, "", ""},
		{"opaque", []string{"spiffe:holdfast/prod/peer/n1"}, "", ""},
		{"other letters", []string{"SPIFFE://HOLDFAST/prod/peer/n1"}, "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cluster, id, ok := peertls.PeerID(&x509.Certificate{URIs: uris(t, tc.uris)})
			if cluster != tc.cluster || id != tc.id || ok != (tc.id != "") {
				t.Errorf("PeerID: got %q, %q, %t, want %q, %q", cluster, id, ok, tc.cluster, tc.id)
			}
		})
	}
}

func uris(t testing.TB, ss []string) []*url.URL {
	t.Helper()
	var us []*url.URL
	for _, s := range ss {
		u, err := url.Parse(s)
		if err != nil {
			t.Fatal(err)
		}
		us = append(us, u)
	}
	return us
}

// FuzzPeerID checks that each accepted name of a peer has only one spelling.
func FuzzPeerID(f *testing.F) {
	f.Add("spiffe://holdfast/prod/peer/n1")
	f.Add("spiffe://holdfast/prod/peer/n%31")
	f.Add("spiffe://holdfast:443/a/peer/b?c#d")
	f.Add("spiffe://holdfast/a/../peer/b")
	f.Fuzz(func(t *testing.T, s string) {
		u, err := url.Parse(s)
		if err != nil {
			return
		}
		cluster, id, ok := peertls.PeerID(&x509.Certificate{URIs: []*url.URL{u}})
		if !ok {
			return
		}
		if got := peertls.PeerURI(cluster, id).String(); !strings.EqualFold(got[:len("spiffe")], s[:len("spiffe")]) ||
			got[len("spiffe"):] != s[len("spiffe"):] {
			t.Errorf("PeerID(%q): got %s, want a refusal", s, got)
		}
		if peertls.CheckName("peer", id) != nil || peertls.CheckName("cluster", cluster) != nil {
			t.Errorf("PeerID(%q): got invalid names %q, %q", s, cluster, id)
		}
	})
}
