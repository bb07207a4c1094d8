package fsm_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/fsm/fsmtest"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// secretFor returns the first version of a secret that is limited to pools.
func secretFor(name string, pools ...string) *internalv1.PutSecret {
	c := putSecret(name, 1)
	c.Secret.Secret.Pools = pools
	return c
}

// withCredentials returns a machine with existing endpoints, and secrets.
func withCredentials(id, pool, bmc, ssh string) *holdfastv1.Machine {
	return &holdfastv1.Machine{MachineId: id,
		Spec: &holdfastv1.MachineSpec{Pool: pool, BmcEndpoint: "https://10.0.0.1/" + id, SshEndpoint: "10.0.1.1:22",
			BmcCredentialsRef: bmc, SshCredentialsRef: ssh}}
}

// TestScopedCallersGetNoSecret checks both the address and the secrets of a
// machine. Secrets are sent to the address, so a caller that sets one must own the other.
func TestScopedCallersGetNoSecret(t *testing.T) {
	set := func(id string, change func(*holdfastv1.Machine), paths ...string) proto.Message {
		m := &holdfastv1.Machine{MachineId: id, Spec: &holdfastv1.MachineSpec{}}
		change(m)
		return &internalv1.UpdateMachine{Machine: m, Paths: paths}
	}
	bmc := func(name string) func(*holdfastv1.Machine) {
		return func(m *holdfastv1.Machine) { m.Spec.BmcCredentialsRef = name }
	}
	ssh := func(name string) func(*holdfastv1.Machine) {
		return func(m *holdfastv1.Machine) { m.Spec.SshCredentialsRef = name }
	}
	bmcAt := func(addr string) func(*holdfastv1.Machine) {
		return func(m *holdfastv1.Machine) { m.Spec.BmcEndpoint = addr }
	}
	sshAt := func(addr string) func(*holdfastv1.Machine) {
		return func(m *holdfastv1.Machine) { m.Spec.SshEndpoint = addr }
	}
	const refBMC, refSSH, epBMC, epSSH = "spec.bmc_credentials_ref", "spec.ssh_credentials_ref", "spec.bmc_endpoint",
		"spec.ssh_endpoint"
	for _, tt := range []struct {
		name   string
		origin *internalv1.Origin
		op     proto.Message
		code   fsm.Code
		reason string
		words  string
	}{
		// Making a machine use a secret.
		{"his own secret", operator("a"), set("m-own", bmc("of-a"), refBMC), 0, "", ""},
		{"his own secret, of two pools", operator("a", "b"), set("m-own", bmc("of-a-and-b"), refBMC), 0, "", ""},
		{"his own secret, but of another pool", operator("a", "b"), set("m-own", bmc("of-b"), refBMC),
			fsm.FailedPrecondition, fsm.ReasonSecretPools, "is for pool b"},
		{"another one's secret", operator("a"), set("m-own", bmc("of-b"), refBMC), fsm.PermissionDenied,
			fsm.ReasonOutOfScope, `secret "of-b" is not limited to your pools`},
		{"one that is shared with others", operator("a"), set("m-own", bmc("of-a-and-b"), refBMC), fsm.PermissionDenied,
			fsm.ReasonOutOfScope, ""},
		{"one that is for all pools", operator("a"), set("m-own", bmc("shared"), refBMC), fsm.PermissionDenied,
			fsm.ReasonOutOfScope, ""},
		{"one that is not there yet", operator("a"), set("m-own", bmc("later"), refBMC), fsm.PermissionDenied,
			fsm.ReasonOutOfScope, `secret "later" is not limited`},
		{"for SSH", operator("a"), set("m-own", ssh("shared"), refSSH), fsm.PermissionDenied, fsm.ReasonOutOfScope, ""},
		{"the machine's BMC secret for SSH", operator("a"), set("m-shared", ssh("shared"), refSSH), fsm.PermissionDenied,
			fsm.ReasonOutOfScope, ""},
		{"both at once, with the address", operator("a"),
			set("m-own", func(m *holdfastv1.Machine) { bmc("shared")(m); bmcAt("https://evil")(m) }, refBMC, epBMC),
			fsm.PermissionDenied, fsm.ReasonOutOfScope, ""},
		{"on a new machine", operator("a"),
			&internalv1.RegisterMachine{Machine: withCredentials("m-new", "a", "shared",
				"")}, fsm.PermissionDenied, fsm.ReasonOutOfScope, ""},
		{"his own on a new machine", operator("a"),
			&internalv1.RegisterMachine{Machine: withCredentials("m-new", "a", "of-a", "of-a")}, 0, "", ""},
		{"on a machine that is deleted and made anew", operator("a"),
			&internalv1.RegisterMachine{Machine: withCredentials("m-gone", "a", "shared",
				"")}, fsm.PermissionDenied, fsm.ReasonOutOfScope, ""},
		{"none any more", operator("a"), set("m-shared", bmc(""), refBMC), 0, "", ""},
		{"by a whole spec", operator("a"), &internalv1.UpdateMachine{Machine: withCredentials("m-own", "a", "of-b", "")},
			fsm.PermissionDenied, fsm.ReasonOutOfScope, ""},
		{"by registering it again", operator("a"),
			&internalv1.RegisterMachine{Machine: withCredentials("m-own", "a", "of-b",
				"")}, fsm.PermissionDenied, fsm.ReasonOutOfScope, ""},

		// Sending a secret elsewhere.
		{"the address of his own secret", operator("a"), set("m-own", bmcAt("https://10.0.0.9"), epBMC), 0, "", ""},
		{"the BMC's address, shared secret", operator("a"), set("m-shared", bmcAt("https://evil"), epBMC),
			fsm.PermissionDenied, fsm.ReasonOutOfScope, "the address of machines"},
		{"the SSH address, shared secret", operator("a"), set("m-shared", sshAt("evil:22"), epSSH), fsm.PermissionDenied,
			fsm.ReasonOutOfScope, ""},
		{"no address at all", operator("a"), set("m-shared", bmcAt(""), epBMC), fsm.PermissionDenied, fsm.ReasonOutOfScope,
			""},
		{"the provider", operator("a"), set("m-shared", func(m *holdfastv1.Machine) { m.Spec.Provider = "other" },
			"spec.provider"), fsm.PermissionDenied, fsm.ReasonOutOfScope, ""},
		{"the provider, by its label", operator("a"),
			set("m-shared", func(m *holdfastv1.Machine) { m.Labels = map[string]string{"provider": "other"} },
				"labels"), fsm.PermissionDenied, fsm.ReasonOutOfScope, ""},
		{"the provider, by the label in a registration", operator("a"),
			&internalv1.RegisterMachine{Machine: &holdfastv1.Machine{MachineId: "m-shared",
				Labels: map[string]string{"provider": "other"}}}, fsm.PermissionDenied, fsm.ReasonOutOfScope, ""},
		{"the address, dropping the secret with it", operator("a"),
			set("m-shared", bmcAt("https://10.0.0.9"), epBMC, refBMC), 0, "", ""},
		{"the same address again", operator("a"),
			&internalv1.UpdateMachine{Machine: withCredentials("m-shared", "a", "shared", "")}, 0, "", ""},
		{"another field of such a machine", operator("a"),
			set("m-shared", func(m *holdfastv1.Machine) { m.Spec.Rack = "r7" }, "spec.rack"), 0, "", ""},
		{"an address, the secret for two pools, both his", operator("a", "b"),
			set("m-both", bmcAt("https://10.0.0.9"), epBMC), fsm.PermissionDenied, fsm.ReasonOutOfScope, ""},
		{"an address, the secret for his pools", operator("a", "b", "c"), set("m-both", bmcAt("https://10.0.0.9"), epBMC),
			0, "", ""},
		{"an agent", agent("m-own"), set("m-own", bmcAt("https://evil"), epBMC), fsm.PermissionDenied, fsm.ReasonOutOfScope,
			""},

		// A caller without limits may do all that makes sense.
		{"without limits, a secret for all pools", operator(), set("m-own", bmc("shared"), refBMC), 0, "", ""},
		{"without limits, one that is not there yet", operator(), set("m-own", bmc("later"), refBMC), 0, "", ""},
		{"without limits, an address", operator(), set("m-shared", bmcAt("https://10.0.0.9"), epBMC), 0, "", ""},
		{"without limits, a secret of another pool", operator(), set("m-own", bmc("of-b"), refBMC), fsm.FailedPrecondition,
			fsm.ReasonSecretPools, `secret "of-b" is for pool b, and machine "m-own" is in pool "a"`},
		{"without limits, out of the secret's pools", operator(),
			set("m-own", func(m *holdfastv1.Machine) { m.Spec.Pool = "b" },
				"spec.pool"), fsm.FailedPrecondition, fsm.ReasonSecretPools, ""},
		{"without limits, a new machine in no pool", operator(),
			&internalv1.RegisterMachine{Machine: withCredentials("m-new", "", "of-b",
				"")}, fsm.FailedPrecondition, fsm.ReasonSecretPools, "is in no pool"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := fsmtest.NewPeer()
			for _, c := range []*internalv1.PutSecret{secretFor("of-a", "a"), secretFor("of-b", "b"),
				secretFor("of-a-and-b", "b", "a"), secretFor("of-a-b-c", "c", "a", "b"), secretFor("shared")} {
				do(t, p, c)
			}
			for _, m := range []*holdfastv1.Machine{withCredentials("m-own", "a", "of-a", ""),
				withCredentials("m-shared", "a", "shared", ""),
				withCredentials("m-both", "a", "of-a-b-c", ""), withCredentials("m-gone", "a", "shared", "")} {
				do(t, p, &internalv1.RegisterMachine{Machine: m})
			}
			do(t, p, &internalv1.DeleteMachine{MachineId: "m-gone"})
			before := dump(t, p)
			r := from(p, tt.origin, tt.op)
			wantAnswer(t, tt.name, r, tt.code, tt.reason)
			if tt.words != "" && (r.Err == nil || !strings.Contains(r.Err.Message, tt.words)) {
				t.Errorf("got the message %v, want %q in it", r.Err, tt.words)
			}
			if diff := before.WithoutAudit().Diff(dump(t, p).WithoutAudit()); r.Err != nil && diff != "" {
				t.Errorf("refused, and yet:\n%s", diff)
			}
			if err := fsmtest.Check(p.View()); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestClustersOfOtherPools checks that an operator of a pool can only name clusters that are
// limited to the pool, because a host that joins a cluster gets an identity there.
func TestClustersOfOtherPools(t *testing.T) {
	start := func(ref string) proto.Message {
		c := &internalv1.StartRun{RunId: "run-1", MachineId: "m-1", RequestId: "r-1", Type: "REPAVE", CheckedProvider: "fake"}
		if ref != "" {
			c.Params = map[string]string{"cluster_ref": ref}
		}
		return c
	}
	target := func(ref string) proto.Message {
		return &internalv1.UpdateMachine{Machine: &holdfastv1.Machine{MachineId: "m-1",
			Spec: &holdfastv1.MachineSpec{TargetClusterRef: ref}},
			Paths: []string{"spec.target_cluster_ref"}}
	}
	for _, tt := range []struct {
		name    string
		origin  *internalv1.Origin
		op      proto.Message
		refused bool
	}{
		{"a run into a cluster of the pool", operator("a"), start("of-a"), false},
		{"a run into a cluster of all pools", operator("a"), start("prod"), true},
		{"a run into a cluster that is not registered", operator("a"), start("later"), true},
		{"a run into the machine's cluster", operator("a"), start("meant"), false},
		{"a run that names none", operator("a"), start(""), false},
		{"a run of an operator of all pools", operator(), start("prod"), false},
		{"another target", operator("a"), target("prod"), true},
		{"another target of the pool", operator("a"), target("of-a"), false},
		{"the same target", operator("a"), target("meant"), false},
		{"a target of an operator of all pools", operator(), target("prod"), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := fsmtest.NewPeer()
			do(t, p, secretFor("cluster/of-a", "a"))
			do(t, p, secretFor("cluster/prod"))
			do(t, p, &internalv1.RegisterMachine{Machine: &holdfastv1.Machine{MachineId: "m-1",
				Spec: &holdfastv1.MachineSpec{Pool: "a", Provider: "fake", TargetClusterRef: "meant"}}})
			code, reason := fsm.Code(0), ""
			if tt.refused {
				code, reason = fsm.PermissionDenied, fsm.ReasonOutOfScope
			}
			wantAnswer(t, tt.name, from(p, tt.origin, tt.op), code, reason)
		})
	}
}

// TestAddressesOfRuns checks that an operator of a pool must own the machine's secrets to
// move it to another address, because they are sent there.
func TestAddressesOfRuns(t *testing.T) {
	start := func(to string) proto.Message {
		c := &internalv1.StartRun{RunId: "run-1", MachineId: "m-1", RequestId: "r-1", Type: "NET_RECONFIG",
			CheckedProvider: "fake",
			Params:          map[string]string{"net_config": "auto eth0"}}
		if to != "" {
			c.Params["new_ssh_endpoint"] = to
		}
		return c
	}
	for _, tt := range []struct {
		name     string
		origin   *internalv1.Origin
		bmc, ssh string
		to       string
		refused  bool
	}{
		{"a secret of the pool", operator("a"), "", "of-a", "192.0.2.9", false},
		{"a secret of all pools", operator("a"), "", "shared", "192.0.2.9", true},
		{"a BMC's secret of all pools", operator("a"), "shared", "of-a", "192.0.2.9", true},
		{"the address that it has", operator("a"), "", "shared", "192.0.2.1", false},
		{"no address", operator("a"), "", "shared", "", false},
		{"no secret", operator("a"), "", "", "192.0.2.9", false},
		{"an operator of all pools", operator(), "", "shared", "192.0.2.9", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := fsmtest.NewPeer()
			do(t, p, secretFor("of-a", "a"))
			do(t, p, secretFor("shared"))
			do(t, p, &internalv1.RegisterMachine{Machine: &holdfastv1.Machine{MachineId: "m-1", Spec: &holdfastv1.MachineSpec{
				Pool: "a", Provider: "fake", SshEndpoint: "192.0.2.1", BmcCredentialsRef: tt.bmc, SshCredentialsRef: tt.ssh}}})
			code, reason := fsm.Code(0), ""
			if tt.refused {
				code, reason = fsm.PermissionDenied, fsm.ReasonOutOfScope
			}
			wantAnswer(t, tt.name, from(p, tt.origin, start(tt.to)), code, reason)
		})
	}
}

func TestSecretPools(t *testing.T) {
	p := fsmtest.NewPeer()
	put := func(version uint64, all bool, pools ...string) *internalv1.PutSecret {
		c := putSecret("bmc", version)
		c.Secret.Secret.Pools, c.AllPools = pools, all
		return c
	}
	wantPools := func(r proto.Message, want ...string) {
		t.Helper()
		if got := r.(*holdfastv1.Secret).GetPools(); !slices.Equal(got, want) {
			t.Errorf("the pools are %v, want %v", got, want)
		}
	}
	wantPools(do(t, p, put(1, false, "b", "a", "b")), "a", "b") // sorted, without duplicates
	// Another password does not change the scope.
	wantPools(do(t, p, put(2, false)), "a", "b")
	do(t, p, &internalv1.RegisterMachine{Machine: inPool("m-a", "a", "bmc")})
	err := refused(t, p, put(3, false, "b", "c"), fsm.FailedPrecondition, fsm.ReasonSecretInUse)
	if !strings.Contains(err.Message, `machine "m-a" in pool "a"`) {
		t.Errorf("got %q", err.Message)
	}
	wantPools(do(t, p, put(3, false, "a")), "a")
	wantPools(do(t, p, put(4, true)))
	do(t, p, &internalv1.RegisterMachine{Machine: inPool("m-none", "", "bmc")})
	refused(t, p, put(5, false, "a"), fsm.FailedPrecondition, fsm.ReasonSecretInUse)
	refused(t, p, put(5, true, "a"), fsm.InvalidArgument, "INVALID_FIELD")
	refused(t, p, put(5, false, "a b"), fsm.InvalidArgument, "INVALID_FIELD")
	var many []string
	for i := range 65 {
		many = append(many, fmt.Sprintf("p-%d", i))
	}
	refused(t, p, put(5, false, many...), fsm.InvalidArgument, "INVALID_FIELD")

	// A secret that was deleted with force and created again must fit the machines that still
	// refer to it.
	do(t, p, &internalv1.DeleteSecret{Name: "bmc", Force: true})
	refused(t, p, put(1, false, "a"), fsm.FailedPrecondition, fsm.ReasonSecretInUse)
	do(t, p, &internalv1.DeleteMachine{MachineId: "m-none"})
	wantPools(do(t, p, put(1, false, "a")), "a")
}

// TestAgentsDoNotMoveMachinesToSecrets checks that an agent moves a machine without a pool to
// its own, but not if the machine has a secret of another pool.
func TestAgentsDoNotMoveMachinesToSecrets(t *testing.T) {
	p := fsmtest.NewPeer()
	do(t, p, &internalv1.CreatePool{Pool: &holdfastv1.Pool{PoolId: "a"}})
	do(t, p, &internalv1.RegisterMachine{Machine: inPool("m-1", "", "bmc")})
	refused(t, p, secretFor("bmc", "b"), fsm.FailedPrecondition, fsm.ReasonSecretInUse)
	do(t, p, secretFor("bmc"))
	do(t, p, &internalv1.RegisterAgent{Agent: &holdfastv1.RegisterAgentRequest{MachineId: "m-1", PoolName: "a"}})
	if err := fsmtest.Check(p.View()); err != nil {
		t.Error(err)
	}
	do(t, p, func() *internalv1.PutSecret {
		c := putSecret("bmc", 2)
		c.Secret.Secret.Pools = []string{"a"}
		return c
	}())
}
