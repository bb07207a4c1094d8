package auth

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	"pgregory.net/rapid"

	"github.com/holdfast-metal/holdfast/cluster/peertls"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

func TestHighest(t *testing.T) {
	for _, tt := range []struct {
		ous   []string
		role  holdfastv1.Role_Value
		pools []string
	}{
		{nil, holdfastv1.Role_ROLE_UNSPECIFIED, nil},
		{[]string{"Engineering", "root", ""}, holdfastv1.Role_ROLE_UNSPECIFIED, nil},
		{[]string{"viewer"}, holdfastv1.Role_VIEWER, nil},
		{[]string{"Admin"}, holdfastv1.Role_ADMIN, nil},
		{[]string{"operator@gpu"}, holdfastv1.Role_OPERATOR, []string{"gpu"}},
		{[]string{"operator@gpu", "viewer"}, holdfastv1.Role_OPERATOR, []string{"gpu"}},
		{[]string{"operator@gpu", "operator@cpu", "operator@gpu"}, holdfastv1.Role_OPERATOR, []string{"cpu", "gpu"}},
		{[]string{"operator@gpu", "operator"}, holdfastv1.Role_OPERATOR, nil},
		{[]string{"viewer@gpu", "operator@cpu"}, holdfastv1.Role_OPERATOR, []string{"cpu"}},
		{[]string{"service"}, holdfastv1.Role_SERVICE, nil},
		{[]string{"service", "viewer@x"}, holdfastv1.Role_VIEWER, []string{"x"}},
		{[]string{"backup"}, holdfastv1.Role_BACKUP, nil},
		{[]string{"backup", "service"}, holdfastv1.Role_SERVICE, nil},
		{[]string{"backup@gpu"}, holdfastv1.Role_ROLE_UNSPECIFIED, nil},
		// A role that cannot be scoped, or an invalid scope, grants nothing.
		{[]string{"admin@gpu"}, holdfastv1.Role_ROLE_UNSPECIFIED, nil},
		{[]string{"service@gpu"}, holdfastv1.Role_ROLE_UNSPECIFIED, nil},
		{[]string{"operator@", "viewer@a"}, holdfastv1.Role_VIEWER, []string{"a"}},
		{[]string{"operator@a,b"}, holdfastv1.Role_ROLE_UNSPECIFIED, nil},
		{[]string{"operator @a", " admin", "admin "}, holdfastv1.Role_ROLE_UNSPECIFIED, nil},
		{[]string{"agent", "pool_agent", "ROLE_UNSPECIFIED"}, holdfastv1.Role_ROLE_UNSPECIFIED, nil},
	} {
		g := highest(tt.ous)
		if g.role != tt.role || !slices.Equal(g.pools, tt.pools) {
			t.Errorf("%q: got %v %v, want %v %v", tt.ous, g.role, g.pools, tt.role, tt.pools)
		}
	}
}

// TestHighestHasNoOrder checks that the order of the units does not matter.
func TestHighestHasNoOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		unit := rapid.SampledFrom([]string{"viewer", "operator", "admin", "service", "viewer@a", "viewer@b", "operator@a",
			"operator@b", "admin@a", "x"})
		ous := rapid.SliceOfN(unit, 0, 6).Draw(t, "ous")
		a, b := highest(ous), highest(rapid.Permutation(ous).Draw(t, "permuted"))
		if a.role != b.role || !slices.Equal(a.pools, b.pools) {
			t.Fatalf("%q: got %v and %v", ous, a, b)
		}
	})
}

func TestFromCertificate(t *testing.T) {
	cert := func(cn string, ous ...string) *peertls.Caller {
		return &peertls.Caller{Cert: &x509.Certificate{Subject: pkix.Name{CommonName: cn, OrganizationalUnit: ous}}}
	}
	for _, tt := range []struct {
		name   string
		caller *peertls.Caller
		want   *holdfastv1.Identity
		reason string
	}{
		{"user", cert("alice", "operator@gpu"), &holdfastv1.Identity{Principal: "user:alice",
			Role: holdfastv1.Role_OPERATOR, Pools: []string{"gpu"}, Method: MethodCertificate}, ""},
		{"no role", cert("bob"), &holdfastv1.Identity{Principal: "user:bob", Method: MethodCertificate}, ""},
		{"peer", &peertls.Caller{Cert: &x509.Certificate{Subject: pkix.Name{CommonName: "n2",
			OrganizationalUnit: []string{"admin"}}}, Cluster: "c1", Peer: "n2"},
			&holdfastv1.Identity{Principal: "peer:n2", Method: MethodCertificate}, ""},
		{"common name of a peer", cert("peer:n2", "admin"), &holdfastv1.Identity{Principal: "user:peer:n2",
			Role: holdfastv1.Role_ADMIN, Method: MethodCertificate}, ""},
		{"nameless", cert("", "admin"), nil, ReasonBadCredentials},
		{"control characters", cert("a\nb", "admin"), nil, ReasonBadCredentials},
		{"not UTF-8", cert("a\xff", "admin"), nil, ReasonBadCredentials},
		{"long", cert(strings.Repeat("a", 129), "admin"), nil, ReasonBadCredentials},
	} {
		got, err := fromCertificate(tt.caller)
		reason := ""
		if err != nil {
			reason = err.Reason
		}
		if diff := cmp.Diff(tt.want, got, protocmp.Transform()); diff != "" || reason != tt.reason {
			t.Errorf("%s: reason %q, want %q (-want +got):\n%s", tt.name, reason, tt.reason, diff)
		}
	}
}

func FuzzSubject(f *testing.F) {
	f.Add("alice", "operator@gpu", "viewer")
	f.Add("peer:n1", "admin@x", "@")
	f.Fuzz(func(t *testing.T, cn, a, b string) {
		id, err := fromSubject(&x509.Certificate{Subject: pkix.Name{CommonName: cn, OrganizationalUnit: []string{a, b}}})
		if (id == nil) == (err == nil) {
			t.Fatalf("got %v and %v", id, err)
		}
		if id == nil {
			return
		}
		if isPeer(id) || !strings.HasPrefix(id.GetPrincipal(), "user:") {
			t.Fatalf("got principal %q for a user", id.GetPrincipal())
		}
		if id.GetRole() == holdfastv1.Role_ADMIN && !strings.EqualFold(a, "admin") && !strings.EqualFold(b, "admin") {
			t.Fatalf("%q and %q: got an admin", a, b)
		}
	})
}
