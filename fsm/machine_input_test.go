package fsm_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

func TestNormalizeMACs(t *testing.T) {
	const want = "aa:bb:cc:dd:ee:0f"
	good := []string{"aa:bb:cc:dd:ee:0f", "AA:BB:CC:DD:EE:0F", "aa-bb-cc-dd-ee-0f", "aabb.ccdd.ee0f", "AABBCCDDEE0F",
		" aa:bb:cc:dd:ee:0f\n", "aa:bb-cc.dd:ee0f"}
	m := &holdfastv1.Machine{Spec: &holdfastv1.MachineSpec{MacAddresses: good}}
	if bad := fsm.NormalizeMachine(m); bad != nil {
		t.Fatal(bad)
	}
	if diff := cmp.Diff([]string{want}, m.GetSpec().GetMacAddresses()); diff != "" {
		t.Errorf("spellings of one address (-want +got):\n%s", diff)
	}
	for _, in := range []string{"", "aa:bb:cc:dd:ee", "aa:bb:cc:dd:ee:0f:00", "aa:bb:cc:dd:ee:0g", "zz:zz:zz:zz:zz:zz",
		"aazzbbccdd0f", "aa bb cc dd ee 0f", "00:00:00:00:00:0\u212a",
		"00:00:00:00:00:00", "ff:ff:ff:ff:ff:ff", "01:00:5e:00:00:01", "3333.0000.0001"} {
		m := &holdfastv1.Machine{Spec: &holdfastv1.MachineSpec{MacAddresses: []string{in}}}
		if bad := fsm.NormalizeMachine(m); len(bad) != 1 || bad[0].Field != "machine.spec.mac_addresses[0]" {
			t.Errorf("%q: got %v, want it refused", in, bad)
		}
	}
	// The order of a machine's addresses is kept: it boots from the first one.
	m = &holdfastv1.Machine{Spec: &holdfastv1.MachineSpec{MacAddresses: []string{"02:00:00:00:00:02",
		"02:00:00:00:00:01", "02-00-00-00-00-02"}}}
	fsm.NormalizeMachine(m)
	if diff := cmp.Diff([]string{"02:00:00:00:00:02", "02:00:00:00:00:01"}, m.GetSpec().GetMacAddresses()); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
}

func TestNormalizeTrims(t *testing.T) {
	in := " \tx y \n"
	m := &holdfastv1.Machine{Spec: &holdfastv1.MachineSpec{SshEndpoint: " s ", BmcEndpoint: "\tb\n",
		TargetClusterRef: in, Provider: in, Location: in, Rack: in, Serial: in, CustomerId: in}}
	if bad := fsm.NormalizeMachine(m); bad != nil {
		t.Fatal(bad)
	}
	same(t, "spec", &holdfastv1.MachineSpec{SshEndpoint: "s", BmcEndpoint: "b", TargetClusterRef: "x y", Provider: "x y",
		Location: "x y", Rack: "x y", Serial: "x y", CustomerId: "x y"}, m.GetSpec())
	if bad := fsm.NormalizeMachine(nil); bad != nil {
		t.Errorf("no machine: got %v", bad)
	}
}

func TestNormalizeNames(t *testing.T) {
	tests := []struct {
		id   string
		good bool
	}{
		{"m-123", true}, {"A.b_c:d-1", true}, {"", true /* generated later */}, {"a/b", false}, {"a b", false}, {"ä",
			false}, {"a\x00", false}, {"a%", false},
	}
	for _, tt := range tests {
		if bad := fsm.NormalizeMachine(&holdfastv1.Machine{MachineId: tt.id}); (len(bad) == 0) != tt.good {
			t.Errorf("machine_id %q: got %v, want good %v", tt.id, bad, tt.good)
		}
	}
	for key, good := range map[string]bool{"env": true, "example.com/role": true, "": false, "a b": false, "a=b": false,
		"ü": false} {
		labels := map[string]string{key: "any thing at all: ü"}
		if bad := fsm.NormalizeMachine(&holdfastv1.Machine{Labels: labels}); (len(bad) == 0) != good {
			t.Errorf("label %q: got %v, want good %v", key, bad, good)
		}
	}
}
