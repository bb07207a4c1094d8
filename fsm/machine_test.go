package fsm_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/fsm/fsmtest"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

func registerOp(id string, spec *holdfastv1.MachineSpec) *internalv1.RegisterMachine {
	return &internalv1.RegisterMachine{Machine: &holdfastv1.Machine{MachineId: id, Spec: spec}}
}

func TestRegisterNewMachine(t *testing.T) {
	p := fsmtest.NewPeer()
	in := &holdfastv1.Machine{MachineId: "m-123", Labels: map[string]string{"env": "prod", "provider": "dc-1"},
		Spec: &holdfastv1.MachineSpec{SshEndpoint: " 10.20.30.40:22", BmcEndpoint: "10.20.30.41",
			MacAddresses: []string{"AA-BB-CC-DD-EE-FF"}, Serial: "S1"},
		// Clients cannot set the status.
		Status: &holdfastv1.MachineStatus{Phase: inService, ActiveRunId: "run-1", NodeState: holdfastv1.Node_ACTIVE,
			Conditions: []*holdfastv1.Condition{{Type: "InCustomerCluster", Status: true}}},
		Revision: 99}
	got := do(t, p, &internalv1.RegisterMachine{Machine: in}).(*holdfastv1.Machine)
	now := p.View().Meta().GetNow()
	want := &holdfastv1.Machine{MachineId: "m-123", Labels: in.GetLabels(),
		Spec: &holdfastv1.MachineSpec{SshEndpoint: "10.20.30.40:22", BmcEndpoint: "10.20.30.41",
			MacAddresses: []string{"aa:bb:cc:dd:ee:ff"}, Serial: "S1"},
		Status: &holdfastv1.MachineStatus{Phase: ready, EffectiveState: holdfastv1.EffectiveState_READY,
			Power:          holdfastv1.PowerState_UNKNOWN,
			NodeState:      holdfastv1.Node_PENDING,
			PhaseChangedAt: now},
		CreatedAt: now, UpdatedAt: now, Revision: p.Index}
	same(t, "result", want, got)
	same(t, "stored", want, getMachine(t, p, "m-123"))
	if diff := cmp.Diff([]string{"phase:  -> READY"}, history(p, "m-123")); diff != "" {
		t.Errorf("history (-want +got):\n%s", diff)
	}
}

func TestRegisterPhase(t *testing.T) {
	for asked := range holdfastv1.MachineStatus_Phase_name {
		p := fsmtest.NewPeer()
		asked := holdfastv1.MachineStatus_Phase(asked)
		do(t, p, &internalv1.RegisterMachine{Machine: &holdfastv1.Machine{MachineId: "m",
			Status: &holdfastv1.MachineStatus{Phase: asked}}})
		want := ready
		if asked == factoryReady {
			want = factoryReady
		}
		if got := getMachine(t, p, "m").GetStatus().GetPhase(); got != want {
			t.Errorf("registered as %s: got %s, want %s", asked, got, want)
		}
	}
}

func TestRegisterRefuses(t *testing.T) {
	p := fsmtest.NewPeer()
	register(t, p, "m-1", ready)
	long := strings.Repeat("x", 300)
	tests := []struct {
		name  string
		op    *internalv1.RegisterMachine
		field string
	}{
		{"no machine", &internalv1.RegisterMachine{}, "machine.machine_id"},
		{"no id", registerOp("", nil), "machine.machine_id"},
		{"id with a slash", registerOp("a/b", nil), "machine.machine_id"},
		{"long id", registerOp(long[:65], nil), "machine.machine_id"},
		{"MAC", registerOp("m", &holdfastv1.MachineSpec{MacAddresses: []string{"aa:bb:cc:dd:ee:ff", "aa:bb"}}),
			"machine.spec.mac_addresses[1]"},
		{"label key", &internalv1.RegisterMachine{Machine: &holdfastv1.Machine{MachineId: "m",
			Labels: map[string]string{"a b": ""}}}, "machine.labels"},
		{"label value", &internalv1.RegisterMachine{Machine: &holdfastv1.Machine{MachineId: "m",
			Labels: map[string]string{"a": long}}}, "machine.labels.a"},
		{"two lines", registerOp("m", &holdfastv1.MachineSpec{Rack: "r\n7"}), "machine.spec.rack"},
		{"long serial", registerOp("m", &holdfastv1.MachineSpec{Serial: long}), "machine.spec.serial"},
		{"endpoint with a blank", registerOp("m", &holdfastv1.MachineSpec{BmcEndpoint: "10.0.0.1 10.0.0.2"}),
			"machine.spec.bmc_endpoint"},
		{"endpoint with a missing colon", registerOp("m", &holdfastv1.MachineSpec{BmcEndpoint: "http//10.0.0.1"}),
			"machine.spec.bmc_endpoint"},
		{"endpoint with a user", registerOp("m", &holdfastv1.MachineSpec{SshEndpoint: "ssh://root@h:22"}),
			"machine.spec.ssh_endpoint"},
		{"bad update of a known one", registerOp("m-1", &holdfastv1.MachineSpec{MacAddresses: []string{"?"}}),
			"machine.spec.mac_addresses[0]"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := refused(t, p, tt.op, fsm.InvalidArgument, "INVALID_FIELD")
			if len(e.Fields) != 1 || e.Fields[0].Field != tt.field {
				t.Errorf("fields: got %v, want %s", e.Fields, tt.field)
			}
		})
	}
	refused(t, p, &internalv1.RegisterMachine{Machine: &holdfastv1.Machine{MachineId: "m-1"}, GeneratedId: true},
		fsm.Aborted, fsm.ReasonIDTaken)
	e := refused(t, p, registerOp("a b", &holdfastv1.MachineSpec{MacAddresses: []string{"x"}}), fsm.InvalidArgument,
		"INVALID_FIELD")
	if len(e.Fields) != 2 || !strings.HasSuffix(e.Message, "(and 1 more)") {
		t.Errorf("two violations: got %q with %v", e.Message, e.Fields)
	}
}

func TestRegisterAgain(t *testing.T) {
	p := fsmtest.NewPeer()
	do(t, p, &internalv1.RegisterMachine{Machine: &holdfastv1.Machine{MachineId: "m",
		Labels: map[string]string{"env": "prod"}, Spec: &holdfastv1.MachineSpec{Rack: "r1", Serial: "S1"}}})
	do(t, p, &internalv1.SetMachinePhase{MachineId: "m", Phase: inService})
	before := getMachine(t, p, "m")

	// Fields in the request are replaced, others stay. The status always stays.
	do(t, p, &internalv1.RegisterMachine{Machine: &holdfastv1.Machine{MachineId: "m",
		Spec:   &holdfastv1.MachineSpec{Rack: "r2"},
		Status: &holdfastv1.MachineStatus{Phase: factoryReady}}})
	want := proto.CloneOf(before)
	want.Spec = &holdfastv1.MachineSpec{Rack: "r2"}
	want.UpdatedAt, want.Revision = p.View().Meta().GetNow(), p.Index
	same(t, "spec replaced", want, getMachine(t, p, "m"))

	do(t, p, &internalv1.RegisterMachine{Machine: &holdfastv1.Machine{MachineId: "m",
		Labels: map[string]string{"env": "test"}}})
	want.Labels, want.UpdatedAt, want.Revision = map[string]string{"env": "test"}, p.View().Meta().GetNow(), p.Index
	same(t, "labels replaced", want, getMachine(t, p, "m"))

	// Repeating it changes nothing.
	got := do(t, p, &internalv1.RegisterMachine{Machine: &holdfastv1.Machine{MachineId: "m",
		Labels: map[string]string{"env": "test"}, Spec: &holdfastv1.MachineSpec{Rack: " r2 "}}})
	same(t, "unchanged result", want, got)
	same(t, "unchanged", want, getMachine(t, p, "m"))

	wantHistory := []string{"phase:  -> READY", "phase: READY -> IN_SERVICE", "node: PENDING -> ACTIVE",
		"inventory:  -> spec.rack, spec.serial", "inventory:  -> labels"}
	if diff := cmp.Diff(wantHistory, history(p, "m")); diff != "" {
		t.Errorf("history (-want +got):\n%s", diff)
	}
}

func TestOwnedOnce(t *testing.T) {
	mac := func(s ...string) *holdfastv1.MachineSpec { return &holdfastv1.MachineSpec{MacAddresses: s} }
	tests := []struct {
		name        string
		first, then *holdfastv1.MachineSpec
		conflict    string // the value in the error, as the caller wrote it; "" for none
	}{
		{"MAC", mac("aa:bb:cc:dd:ee:ff"), mac("aa:bb:cc:dd:ee:ff"), "MAC address aa:bb:cc:dd:ee:ff"},
		{"MAC in another spelling", mac("aa:bb:cc:dd:ee:ff"), mac("AABB.CCDD.EEFF"), "MAC address aa:bb:cc:dd:ee:ff"},
		{"one of several MACs", mac("aa:bb:cc:dd:ee:00", "aa:bb:cc:dd:ee:01"),
			mac("aa:bb:cc:dd:ee:02", "aa:bb:cc:dd:ee:01"), "MAC address aa:bb:cc:dd:ee:01"},
		{"other MAC", mac("aa:bb:cc:dd:ee:00"), mac("aa:bb:cc:dd:ee:01"), ""},
		{"BMC", &holdfastv1.MachineSpec{BmcEndpoint: "bmc-1.lan"}, &holdfastv1.MachineSpec{BmcEndpoint: "BMC-1.lan"},
			"BMC endpoint BMC-1.lan belongs"},
		{"BMC in another spelling", &holdfastv1.MachineSpec{BmcEndpoint: "10.0.0.1"},
			&holdfastv1.MachineSpec{BmcEndpoint: "https://10.0.0.1:443/"}, "BMC endpoint https://10.0.0.1:443/ belongs"},
		{"BMC with another protocol", &holdfastv1.MachineSpec{BmcEndpoint: "https://10.0.0.1"},
			&holdfastv1.MachineSpec{BmcEndpoint: "ipmi://10.0.0.1"}, "BMC endpoint ipmi://10.0.0.1 belongs"},
		{"another system of a BMC", &holdfastv1.MachineSpec{BmcEndpoint: "https://10.0.0.1/redfish/v1/Systems/1"},
			&holdfastv1.MachineSpec{BmcEndpoint: "https://10.0.0.1/redfish/v1/Systems/2"}, ""},
		{"another port", &holdfastv1.MachineSpec{BmcEndpoint: "https://10.0.0.1:8001"},
			&holdfastv1.MachineSpec{BmcEndpoint: "https://10.0.0.1:8002"}, ""},
		{"longer BMC", &holdfastv1.MachineSpec{BmcEndpoint: "10.0.0.1"}, &holdfastv1.MachineSpec{BmcEndpoint: "10.0.0.10"},
			""},
		{"shorter BMC", &holdfastv1.MachineSpec{BmcEndpoint: "10.0.0.10"}, &holdfastv1.MachineSpec{BmcEndpoint: "10.0.0.1"},
			""},
		{"serial", &holdfastv1.MachineSpec{Serial: "S1"}, &holdfastv1.MachineSpec{Serial: "S1"}, "serial S1"},
		{"serials have a case", &holdfastv1.MachineSpec{Serial: "S1"}, &holdfastv1.MachineSpec{Serial: "s1"}, ""},
		{"no serial at all", &holdfastv1.MachineSpec{}, &holdfastv1.MachineSpec{}, ""},
		{"SSH is not owned", &holdfastv1.MachineSpec{SshEndpoint: "jump:22"},
			&holdfastv1.MachineSpec{SshEndpoint: "jump:22"}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := fsmtest.NewPeer()
			do(t, p, registerOp("m-1", tt.first))
			register(t, p, "m-2", ready)
			ops := map[string]proto.Message{
				"new machine":   registerOp("m-3", tt.then),
				"known machine": registerOp("m-2", tt.then),
				"update": &internalv1.UpdateMachine{Machine: &holdfastv1.Machine{MachineId: "m-2", Spec: tt.then},
					Paths: []string{"spec"}},
			}
			for name, op := range ops {
				op := proto.Clone(op)
				if tt.conflict == "" {
					q := fsmtest.NewPeer()
					do(t, q, registerOp("m-1", tt.first))
					register(t, q, "m-2", ready)
					do(t, q, op)
					continue
				}
				e := refused(t, p, op, fsm.AlreadyExists, "MACHINE_CONFLICT")
				if !strings.Contains(e.Message, tt.conflict) || !strings.Contains(e.Message, `"m-1"`) ||
					e.Meta["machine_id"] != "m-1" {
					t.Errorf("%s: got %q with %v, want it to name %s and m-1", name, e.Message, e.Meta, tt.conflict)
				}
			}
			do(t, p, registerOp("m-1", tt.first)) // its own keys do not conflict
			// Released keys are free again.
			do(t, p, &internalv1.UpdateMachine{Machine: &holdfastv1.Machine{MachineId: "m-1"}, Paths: []string{"spec"}})
			do(t, p, registerOp("m-2", tt.first))
			do(t, p, &internalv1.DeleteMachine{MachineId: "m-2"})
			do(t, p, registerOp("m-1", tt.first))
		})
	}
}

func TestUpdateMachineMask(t *testing.T) {
	old := func() *holdfastv1.Machine {
		return &holdfastv1.Machine{MachineId: "m", Labels: map[string]string{"env": "prod", "role": "worker"},
			Spec: &holdfastv1.MachineSpec{Rack: "r1", Serial: "S1", MacAddresses: []string{"aa:bb:cc:dd:ee:00"}}}
	}
	in := &holdfastv1.Machine{MachineId: "m", Labels: map[string]string{"env": "test", "new": "1"},
		Spec: &holdfastv1.MachineSpec{Rack: "r2", Location: "ber", MacAddresses: []string{"AA:BB:CC:DD:EE:01"}}}
	tests := []struct {
		name  string
		paths []string
		want  func(*holdfastv1.Machine)
		diff  string // of the history entry; "" for no change
	}{
		{"no mask replaces spec and labels", nil, func(m *holdfastv1.Machine) {
			m.Labels = in.GetLabels()
			m.Spec = &holdfastv1.MachineSpec{Rack: "r2", Location: "ber", MacAddresses: []string{"aa:bb:cc:dd:ee:01"}}
		}, "spec.location, spec.rack, spec.serial, spec.mac_addresses, labels"},
		{"spec", []string{"spec"}, func(m *holdfastv1.Machine) {
			m.Spec = &holdfastv1.MachineSpec{Rack: "r2", Location: "ber", MacAddresses: []string{"aa:bb:cc:dd:ee:01"}}
		}, "spec.location, spec.rack, spec.serial, spec.mac_addresses"},
		{"labels", []string{"labels"}, func(m *holdfastv1.Machine) { m.Labels = in.GetLabels() }, "labels"},
		{"one field", []string{"spec.rack"}, func(m *holdfastv1.Machine) { m.Spec.Rack = "r2" }, "spec.rack"},
		{"a field that is empty is cleared", []string{"spec.serial"}, func(m *holdfastv1.Machine) { m.Spec.Serial = "" },
			"spec.serial"},
		{"a list", []string{"spec.mac_addresses"},
			func(m *holdfastv1.Machine) { m.Spec.MacAddresses = []string{"aa:bb:cc:dd:ee:01"} }, "spec.mac_addresses"},
		{"one label", []string{"labels.env"}, func(m *holdfastv1.Machine) { m.Labels["env"] = "test" }, "labels"},
		{"a label that is missing is removed", []string{"labels.role"},
			func(m *holdfastv1.Machine) { delete(m.Labels, "role") }, "labels"},
		{"several", []string{"spec.rack", "labels.new"}, func(m *holdfastv1.Machine) {
			m.Spec.Rack, m.Labels["new"] = "r2",
				"1"
		}, "spec.rack, labels"},
		{"nothing differs", []string{"spec.provider", "labels.none"}, func(*holdfastv1.Machine) {}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := fsmtest.NewPeer()
			do(t, p, &internalv1.RegisterMachine{Machine: old()})
			before := getMachine(t, p, "m")
			do(t, p, &internalv1.UpdateMachine{Machine: in, Paths: tt.paths})
			want := proto.CloneOf(before)
			tt.want(want)
			wantHistory := []string{"phase:  -> READY"}
			if tt.diff != "" {
				want.UpdatedAt, want.Revision = p.View().Meta().GetNow(), p.Index
				wantHistory = append(wantHistory, "inventory:  -> "+tt.diff)
			}
			same(t, "machine", want, getMachine(t, p, "m"))
			if diff := cmp.Diff(wantHistory, history(p, "m")); diff != "" {
				t.Errorf("history (-want +got):\n%s", diff)
			}
		})
	}
	p := fsmtest.NewPeer()
	register(t, p, "m", ready)
	for _, path := range []string{"status", "status.phase", "machine_id", "spec.none", "spec.", "spec.mac_addresses.0",
		"labels.", "", "*", "Spec"} {
		e := refused(t, p, &internalv1.UpdateMachine{Machine: in, Paths: []string{"labels", path}}, fsm.InvalidArgument,
			"INVALID_FIELD")
		if len(e.Fields) != 1 || e.Fields[0].Field != "update_mask" {
			t.Errorf("path %q: got %v, want update_mask", path, e.Fields)
		}
	}
	refused(t, p, &internalv1.UpdateMachine{Machine: &holdfastv1.Machine{MachineId: "nobody"}}, fsm.NotFound,
		"MACHINE_NOT_FOUND")
	refused(t, p, &internalv1.UpdateMachine{}, fsm.NotFound, "MACHINE_NOT_FOUND")
	refused(t, p, &internalv1.UpdateMachine{Machine: &holdfastv1.Machine{MachineId: "m",
		Spec: &holdfastv1.MachineSpec{MacAddresses: []string{"x"}}}, Paths: []string{"spec.mac_addresses"}},
		fsm.InvalidArgument, "INVALID_FIELD")
}

// TestHardwareStaysDuringARun checks that the hardware of a machine cannot change during a
// run, which would operate other hardware.
func TestHardwareStaysDuringARun(t *testing.T) {
	p := fsmtest.NewPeer()
	m := &holdfastv1.Machine{MachineId: "m", Labels: map[string]string{"provider": "dc-1"},
		Spec: &holdfastv1.MachineSpec{BmcEndpoint: "b", SshEndpoint: "s"}}
	do(t, p, &internalv1.RegisterMachine{Machine: m})
	op := startOp("m", "request-1", "REBOOT", "")
	op.CheckedProvider = "dc-1"
	do(t, p, op)
	update := func(path string, change func(*holdfastv1.Machine)) *internalv1.UpdateMachine {
		c := proto.CloneOf(m)
		change(c)
		return &internalv1.UpdateMachine{Machine: c, Paths: []string{path}}
	}
	moves := []*internalv1.UpdateMachine{
		update("spec.bmc_endpoint", func(m *holdfastv1.Machine) { m.Spec.BmcEndpoint = "b2" }),
		update("spec", func(m *holdfastv1.Machine) { m.Spec.SshEndpoint = "s2" }),
		update("spec.provider", func(m *holdfastv1.Machine) { m.Spec.Provider = "dc-2" }),
		update("labels.provider", func(m *holdfastv1.Machine) { m.Labels["provider"] = "dc-2" }),
	}
	for _, op := range moves {
		if e := refused(t, p, op, fsm.FailedPrecondition, fsm.ReasonActiveRun); e.Meta["run_id"] != "run-request-1" {
			t.Errorf("%v: got %v, want the run in it", op.GetPaths(), e.Meta)
		}
	}
	refused(t, p, registerOp("m", &holdfastv1.MachineSpec{BmcEndpoint: "b3", SshEndpoint: "s"}), fsm.FailedPrecondition,
		fsm.ReasonActiveRun)
	do(t, p, update("spec.rack", func(m *holdfastv1.Machine) { m.Spec.Rack = "r7" }))
	// Naming the same provider in the other field is not a move.
	do(t, p, update("spec.provider", func(m *holdfastv1.Machine) { m.Spec.Provider = "dc-1" }))
	finish(t, p, "run-request-1", succeeded)
	for _, op := range moves {
		do(t, p, op)
	}
}

func TestDeleteAndRegisterAgain(t *testing.T) {
	p := fsmtest.NewPeer()
	register(t, p, "m", ready)
	start(t, p, "m", "request-1", "REBOOT", "")
	if e := refused(t, p, &internalv1.DeleteMachine{MachineId: "m"}, fsm.FailedPrecondition,
		fsm.ReasonActiveRun); e.Meta["run_id"] != "run-request-1" {
		t.Errorf("delete during a run: got %v, want the run in it", e.Meta)
	}
	finish(t, p, "run-request-1", succeeded)
	do(t, p, &internalv1.DeleteMachine{MachineId: "m"})
	refused(t, p, &internalv1.DeleteMachine{MachineId: "m"}, fsm.NotFound, "MACHINE_NOT_FOUND")
	if _, ok := p.View().Machine("m"); ok || p.View().MachineCount() != 0 {
		t.Error("the machine is still there")
	}
	// Runs and history outlive it. A replay still returns its run; a new start finds no
	// machine.
	if r := start(t, p, "m", "request-1", "REBOOT", ""); r.GetPhase() != holdfastv1.Run_SUCCEEDED {
		t.Errorf("replay after the machine is gone: got %v, want the run that has SUCCEEDED", r)
	}
	refused(t, p, startOp("m", "request-2", "REBOOT", ""), fsm.NotFound, "MACHINE_NOT_FOUND")
	register(t, p, "m", factoryReady)
	want := []string{"phase:  -> READY", "phase: READY -> PROVISIONING", "phase: PROVISIONING -> READY",
		"inventory:  -> deleted", "phase:  -> FACTORY_READY"}
	if diff := cmp.Diff(want, history(p, "m")); diff != "" {
		t.Errorf("history (-want +got):\n%s", diff)
	}
	var seqs []uint64
	for e := range p.View().History("m", 0) {
		seqs = append(seqs, e.GetSequence())
	}
	if diff := cmp.Diff([]uint64{5, 4, 3, 2, 1}, seqs); diff != "" {
		t.Errorf("sequences (-want +got):\n%s", diff)
	}
	if got := getMachine(t, p, "m"); got.GetStatus().GetPhase() != factoryReady || got.GetCreatedAt().AsTime() != p.Now {
		t.Errorf("registered again: got %v, want a new machine", got)
	}
	if r := start(t, p, "m", "request-1", "REBOOT", ""); r.GetPhase() != holdfastv1.Run_SUCCEEDED {
		t.Errorf("replay after registering again: got %v, want the old run", r)
	}
}

func TestHistoryPages(t *testing.T) {
	p := fsmtest.NewPeer()
	for _, id := range []string{"m", "m-1", "m0", "m.", "l"} {
		register(t, p, id, ready)
	}
	for range 10 {
		do(t, p, &internalv1.SetMachinePhase{MachineId: "m", Phase: maintenance, Comment: "why not"})
		do(t, p, &internalv1.SetMachinePhase{MachineId: "m", Phase: ready})
	}
	var got []uint64
	for before := uint64(0); ; {
		n := 0
		for e := range p.View().History("m", before) {
			if e.GetMachineId() != "m" || e.GetAt() == nil || e.GetPrincipal() != "tester" || e.GetTriggeredBy() != "operator" {
				t.Errorf("entry: got %v", e)
			}
			got, before = append(got, e.GetSequence()), e.GetSequence()
			if n++; n == 4 {
				break
			}
		}
		if n == 0 {
			break
		}
	}
	var want []uint64
	for i := uint64(21); i > 0; i-- {
		want = append(want, i)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("sequences (-want +got):\n%s", diff)
	}
	if n := len(history(p, "nobody")); n != 0 {
		t.Errorf("history of nobody: got %d entries, want none", n)
	}
}

func TestMachinesPages(t *testing.T) {
	p := fsmtest.NewPeer()
	var want []string
	for i := range 25 {
		id := fmt.Sprintf("m-%d", (i*7)%25)
		register(t, p, id, ready)
		want = append(want, id)
	}
	slices.Sort(want)
	var got []string
	for after := ""; len(got) < len(want); {
		n := 0
		for m := range p.View().Machines(after) {
			if m.GetStatus().GetEffectiveState() != holdfastv1.EffectiveState_READY {
				t.Errorf("%s has effective state %s, want READY", m.GetMachineId(), m.GetStatus().GetEffectiveState())
			}
			got, after = append(got, m.GetMachineId()), m.GetMachineId()
			if n++; n == 10 {
				break
			}
		}
		if n == 0 {
			break
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("machines (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want, slices.Collect(p.View().MachineIDs())); diff != "" {
		t.Errorf("ids of machines (-want +got):\n%s", diff)
	}
	if got := p.View().MachineCount(); got != 25 {
		t.Errorf("count: got %d, want 25", got)
	}
}

// An update without a mask keeps unset spec and labels.
func TestUpdateLeavesUnsetAlone(t *testing.T) {
	for _, tt := range []struct {
		name  string
		in    *holdfastv1.Machine
		paths []string
		want  string
	}{
		{"labels", &holdfastv1.Machine{Labels: map[string]string{"env": "new"}}, nil, "r7 new"},
		{"spec", &holdfastv1.Machine{Spec: &holdfastv1.MachineSpec{Rack: "r8"}}, nil, "r8 old"},
		{"nothing", &holdfastv1.Machine{}, nil, "r7 old"},
		{"all", &holdfastv1.Machine{Labels: map[string]string{"env": "new"}}, []string{"spec", "labels"}, " new"},
	} {
		p := fsmtest.NewPeer()
		do(t, p, &internalv1.RegisterMachine{Machine: &holdfastv1.Machine{MachineId: "m-1",
			Labels: map[string]string{"env": "old"}, Spec: &holdfastv1.MachineSpec{Rack: "r7"}}})
		tt.in.MachineId = "m-1"
		m := do(t, p, &internalv1.UpdateMachine{Machine: tt.in, Paths: tt.paths}).(*holdfastv1.Machine)
		if got := m.GetSpec().GetRack() + " " + m.GetLabels()["env"]; got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestRetryBMC(t *testing.T) {
	p := fsmtest.NewPeer()
	register(t, p, "m-1", ready)
	m := do(t, p, &internalv1.RetryBmc{MachineId: "m-1"}).(*holdfastv1.Machine)
	if m.GetStatus().GetBmcRetryAt() == nil {
		t.Errorf("the machine's status is %v, want the time of the retry", m.GetStatus())
	}
	var facets []string
	for e := range p.View().History("m-1", 0) {
		facets = append(facets, e.GetFacet()+": "+e.GetTo())
	}
	if !slices.Contains(facets, "bmc: logins allowed") {
		t.Errorf("history: %v, want that logins were allowed", facets)
	}
	refused(t, p, &internalv1.RetryBmc{MachineId: "m-2"}, fsm.NotFound, "MACHINE_NOT_FOUND")
}

// TestLimitsOfMachine checks that a machine with too many labels or MAC addresses is refused before
// anything is compared, also if updates add them one by one.
func TestLimitsOfMachine(t *testing.T) {
	p := fsmtest.NewPeer()
	m := &holdfastv1.Machine{MachineId: "m-1", Labels: map[string]string{}, Spec: &holdfastv1.MachineSpec{}}
	for i := range 256 {
		m.Labels[fmt.Sprint("l", i)] = "x"
	}
	for i := range 64 {
		m.Spec.MacAddresses = append(m.Spec.MacAddresses, fmt.Sprintf("02:00:00:00:00:%02x", i))
	}
	do(t, p, &internalv1.RegisterMachine{Machine: m})
	one := &internalv1.UpdateMachine{Paths: []string{"labels.more"},
		Machine: &holdfastv1.Machine{MachineId: "m-1", Labels: map[string]string{"more": "x"}}}
	if e := refused(t, p, one, fsm.InvalidArgument, "INVALID_FIELD"); !strings.Contains(e.Message, "at most 256") {
		t.Errorf("a label more: got %q, want the limit", e.Message)
	}
	many := proto.CloneOf(m)
	many.Labels = nil
	for i := range 20_000 {
		many.Spec.MacAddresses = append(many.Spec.MacAddresses, fmt.Sprintf("02:00:00:01:%02x:%02x", i/256, i%256))
	}
	e := refused(t, p, &internalv1.RegisterMachine{Machine: many}, fsm.InvalidArgument, "INVALID_FIELD")
	if !strings.Contains(e.Message, "at most 64") {
		t.Errorf("20,064 addresses: got %q, want the limit", e.Message)
	}
}
