package fsm_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/fsm/fsmtest"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

const (
	uuidA      = "38947555-7742-3448-3784-823347823834"
	uuidA2     = "55759438-4277-4834-3784-823347823834" // the same, with the other order of bytes
	uuidB      = "38947555-7742-3448-3784-823347823835"
	identityOf = "IdentityConflict"
)

// boardReport is a report from the MAC address of m-1.
func boardReport(serial, uuid, status string) *internalv1.ReportNode {
	return &internalv1.ReportNode{RunId: "run-r", Report: &holdfastv1.ReportNodeRequest{MacAddress: nodeMAC,
		InstallationStatus: status,
		Facts:              &holdfastv1.NodeRecord{Hostname: "from-" + serial, SerialNumber: serial, SystemUuid: uuid}}}
}

// TestSharedMAC checks that a report of a host with another serial number or UUID changes nothing
// of the machine with its MAC address but a condition, which is an issue, and that it is in the
// audit trail.
func TestSharedMAC(t *testing.T) {
	for name, tt := range map[string]struct {
		declared     string
		first, then  [2]string // serial number and UUID
		refused      bool
		reason, says string
	}{
		"the same":                {first: [2]string{"S1", uuidA}, then: [2]string{"s1 ", uuidA}},
		"UUID in the other order": {first: [2]string{"S1", uuidA}, then: [2]string{"S1", uuidA2}},
		"another serial number": {first: [2]string{"S1", ""}, then: [2]string{"S2", ""},
			refused: true, reason: "OtherSerial", says: "S2"},
		"another UUID": {first: [2]string{"S1", uuidA}, then: [2]string{"S1", uuidB},
			refused: true, reason: "OtherUUID", says: uuidB},
		"another UUID, no serial number": {first: [2]string{"", uuidA}, then: [2]string{"", uuidB},
			refused: true, reason: "OtherUUID", says: uuidB},
		"placeholders":      {first: [2]string{"Default string", ""}, then: [2]string{"S2", ""}},
		"a placeholder now": {first: [2]string{"S1", ""}, then: [2]string{"To be filled by O.E.M.", ""}},
		"not the declared one": {declared: "S1", then: [2]string{"S2", ""},
			refused: true, reason: "OtherSerial", says: "S2"},
		"the declared one": {declared: "S1", then: [2]string{"S1", uuidA}},
	} {
		t.Run(name, func(t *testing.T) {
			p := nodePeer(t)
			if tt.declared != "" {
				do(t, p, &internalv1.UpdateMachine{Machine: &holdfastv1.Machine{MachineId: "m-1",
					Spec: &holdfastv1.MachineSpec{Serial: tt.declared}}, Paths: []string{"spec.serial"}})
			}
			if tt.first != [2]string{} {
				do(t, p, boardReport(tt.first[0], tt.first[1], ""))
			}
			do(t, p, move("m-1", pending, false))
			before := getMachine(t, p, "m-1")
			c := &internalv1.Command{
				Op:     &internalv1.Command_ReportNode{ReportNode: boardReport(tt.then[0], tt.then[1], "started")},
				Origin: &internalv1.Origin{Role: holdfastv1.Role_ADMIN},
			}
			r := p.Propose(c)[0]
			m := getMachine(t, p, "m-1")
			conflict := cond(m, identityOf)
			if !tt.refused {
				if r.Err != nil || conflict.GetStatus() || m.GetNode().GetSerialNumber() != strings.TrimSpace(tt.then[0]) {
					t.Fatalf("got %v, condition %v, serial number %q", r.Err, conflict, m.GetNode().GetSerialNumber())
				}
				return
			}
			if r.Err == nil || r.Err.Code != fsm.AlreadyExists || r.Err.Reason != "MACHINE_CONFLICT" {
				t.Fatalf("got %v, want a refusal", r.Err)
			}
			if !conflict.GetStatus() || conflict.GetReason() != tt.reason || !strings.Contains(conflict.GetMessage(), tt.says) {
				t.Errorf("got condition %v", conflict)
			}
			if !proto.Equal(before.GetNode(), m.GetNode()) || m.GetStatus().GetNodeState() != pending ||
				m.GetStatus().GetActiveRunId() != "" {
				t.Errorf("the record was merged: %v", m)
			}
			if !slices.ContainsFunc(m.GetStatus().GetIssues(), func(i *holdfastv1.Issue) bool {
				return i.GetType() == identityOf && i.GetReason() == conflict.GetMessage()
			}) {
				t.Errorf("got issues %v", m.GetStatus().GetIssues())
			}
			if e := newestEvent(t, p); e.GetReason() != "MACHINE_CONFLICT" || e.GetResource() != "machines/m-1" {
				t.Errorf("got the audit event %v", e)
			}
			revision := m.GetRevision()
			p.Propose(proto.CloneOf(c))
			if got := getMachine(t, p, "m-1").GetRevision(); got != revision {
				t.Errorf("a repeated report has changed the machine at %d, after %d", got, revision)
			}
			// The operator declares which one it is.
			do(t, p, &internalv1.UpdateMachine{Machine: &holdfastv1.Machine{MachineId: "m-1",
				Spec: &holdfastv1.MachineSpec{Serial: "S9"}}, Paths: []string{"spec.serial"}})
			if c := cond(getMachine(t, p, "m-1"), identityOf); c.GetStatus() {
				t.Errorf("after the correction: got %v", c)
			}
			do(t, p, boardReport("S9", uuidB, "started"))
			if m := getMachine(t, p, "m-1"); m.GetNode().GetSystemUuid() != uuidB || m.GetStatus().GetNodeState() != installing {
				t.Errorf("the new board is not accepted: %v", m)
			}
		})
	}
}

// TestSharedBoard checks that two records with the same serial number and UUID stay two, and that
// the second one shows it for as long as it is true.
func TestSharedBoard(t *testing.T) {
	p := nodePeer(t)
	do(t, p, boardReport("S1", uuidA, ""))
	other := boardReport("S1", uuidA2, "")
	other.MachineId, other.Discover, other.Report.MacAddress = "m-2", true, "aa:bb:cc:dd:ee:02"
	do(t, p, other)
	c := cond(getMachine(t, p, "m-2"), identityOf)
	if !c.GetStatus() || c.GetReason() != "SharedBoard" || strings.Contains(c.GetMessage(), "m-1") {
		t.Errorf("got condition %v", c)
	}
	if c := cond(getMachine(t, p, "m-1"), identityOf); c != nil {
		t.Errorf("the first record: got condition %v", c)
	}
	do(t, p, &internalv1.DeleteMachine{MachineId: "m-1"})
	do(t, p, other)
	if c := cond(getMachine(t, p, "m-2"), identityOf); c.GetStatus() {
		t.Errorf("after the deletion of the other record: got %v", c)
	}
}

// TestSharedPort checks that a machine whose agent or BMC reports a port with a MAC address of
// another machine shows it, and that neither takes the address over.
func TestSharedPort(t *testing.T) {
	p := fsmtest.NewPeer()
	do(t, p, registerOp("owner", &holdfastv1.MachineSpec{MacAddresses: []string{"aa:bb:cc:00:00:01"}}))
	register(t, p, "m", ready)
	nic := func(mac string) *holdfastv1.HardwareInventory {
		return &holdfastv1.HardwareInventory{Parts: []*holdfastv1.HardwarePart{{Kind: "nic", Slot: "usb0", Mac: mac}}}
	}
	readHardware(t, p, "r-1", nic("aa:bb:cc:00:00:01"))
	if c := cond(getMachine(t, p, "m"), identityOf); !c.GetStatus() || c.GetReason() != "SharedMAC" {
		t.Errorf("inventory: got condition %v", c)
	}
	readHardware(t, p, "r-2", nic("aa:bb:cc:00:00:02"))
	if c := cond(getMachine(t, p, "m"), identityOf); c.GetStatus() {
		t.Errorf("another port: got condition %v", c)
	}
	if m, ok := p.View().MachineByMAC("aa:bb:cc:00:00:01"); !ok || m.GetMachineId() != "owner" {
		t.Errorf("the address belongs to %s", m.GetMachineId())
	}
}

// TestAttemptBeganWithItsReading checks that an attempt began when it began to read its machine,
// but not before its run.
func TestAttemptBeganWithItsReading(t *testing.T) {
	for _, tt := range []struct{ reading, want time.Duration }{
		{0, 0}, {30 * time.Second, 30 * time.Second}, {-time.Hour, 0}, {time.Hour, -1}, // not before the run
	} {
		p := fsmtest.NewPeer()
		register(t, p, "m", ready)
		run := start(t, p, "m", "r-1", "", "plan/inspect").GetRunId()
		p.Now = p.Now.Add(time.Minute)
		do(t, p, &internalv1.BeginAttempt{RunId: run, Step: "inspect", Attempt: 1, ReadingMs: tt.reading.Milliseconds()})
		r, _ := p.View().Run(run)
		at := r.GetSteps()[0].GetAttempts()[0].GetStartedAt().AsTime()
		got := p.View().Now().Sub(at).Round(time.Second)
		if at.Equal(r.GetCreatedAt().AsTime()) {
			got = -1
		}
		if got != tt.want {
			t.Errorf("reading of %v: the attempt began %v ago, want %v", tt.reading, got, tt.want)
		}
		if !r.GetStartedAt().AsTime().Equal(at) || !r.GetSteps()[0].GetStartedAt().AsTime().Equal(at) {
			t.Errorf("reading of %v: the run began at %v, the step at %v, the attempt at %v", tt.reading,
				r.GetStartedAt().AsTime(), r.GetSteps()[0].GetStartedAt().AsTime(), at)
		}
	}
}

// TestConflictStopsErasing checks that nothing erases either of two machines that seem to be one,
// until an operator has decided, and that the beginning and the end are in the audit trail and
// among the events.
func TestConflictStopsErasing(t *testing.T) {
	nic := &holdfastv1.HardwareInventory{Parts: []*holdfastv1.HardwarePart{
		{Kind: "nic", Slot: "usb0", Mac: "aa:bb:cc:00:00:01"},
	}}
	twin := func(t *testing.T, p *fsmtest.Peer) {
		t.Helper()
		do(t, p, boardReport("S1", uuidA, ""))
		other := boardReport("S1", uuidA2, "")
		other.MachineId, other.Discover, other.Report.MacAddress = "m-2", true, "aa:bb:cc:dd:ee:02"
		do(t, p, other)
		do(t, p, &internalv1.SetMachinePhase{MachineId: "m-2", Phase: ready})
	}
	for name, tt := range map[string]struct {
		begin  func(*testing.T, *fsmtest.Peer)
		both   []string
		reason string
		shown  string // the machine with the condition
		decide proto.Message
	}{
		"one MAC address": {
			begin: func(t *testing.T, p *fsmtest.Peer) {
				t.Helper()
				do(t, p, registerOp("m-2", &holdfastv1.MachineSpec{MacAddresses: []string{"aa:bb:cc:00:00:01"}}))
				readHardware(t, p, "r-1", nic)
			},
			both: []string{"m", "m-2"}, reason: "SharedMAC", shown: "m",
			decide: &internalv1.UpdateMachine{Machine: &holdfastv1.Machine{MachineId: "m-2"},
				Paths: []string{"spec.mac_addresses"}},
		},
		"one board": {
			begin: twin, both: []string{"m-1", "m-2"}, reason: "SharedBoard", shown: "m-2",
			decide: &internalv1.UpdateMachine{Machine: &holdfastv1.Machine{MachineId: "m-1",
				Spec: &holdfastv1.MachineSpec{Serial: "CHASSIS-1"}}, Paths: []string{"spec.serial"}},
		},
		"one of them deleted": {
			begin: twin, both: []string{"m-2"}, reason: "SharedBoard", shown: "m-2",
			decide: &internalv1.DeleteMachine{MachineId: "m-1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := nodePeer(t)
			register(t, p, "m", ready)
			event := p.View().LastEvent()
			tt.begin(t, p)
			for _, id := range tt.both {
				if p.View().ConflictOf(getMachine(t, p, id)) == "" {
					t.Errorf("%s: no conflict", id)
				}
				r := p.Propose(&internalv1.Command{Op: &internalv1.Command_StartRun{StartRun: erasing(id, "erase-1")}})[0]
				if r.Err == nil || r.Err.Reason != "IDENTITY_CONFLICT" {
					t.Errorf("erase %s: got %v, want a refusal", id, r.Err)
				}
			}
			want := []string{"IdentityConflict/began " + tt.reason + " machines/" + tt.shown}
			if diff := cmp.Diff(want, conflictAudit(p)); diff != "" {
				t.Errorf("audit trail (-want +got):\n%s", diff)
			}
			do(t, p, tt.decide)
			for _, id := range tt.both {
				if why := p.View().ConflictOf(getMachine(t, p, id)); why != "" {
					t.Errorf("%s after the decision: got %q", id, why)
				}
				do(t, p, erasing(id, "erase-2"))
			}
			if tt.reason == "SharedBoard" { // that of a port ends with the next report
				want = append(want, "IdentityConflict/ended "+tt.reason+" machines/"+tt.shown)
			}
			if diff := cmp.Diff(want, conflictAudit(p)); diff != "" {
				t.Errorf("audit trail (-want +got):\n%s", diff)
			}
			events, err := p.View().Events(event, 1000)
			n := 0
			for _, e := range events {
				if e.GetType() == "machine.condition" && strings.Contains(e.GetChange().GetTo(), identityOf) {
					n++
				}
			}
			if err != nil || n != len(want) {
				t.Errorf("got %d events of the conflict, want %d (%v)", n, len(want), err)
			}
		})
	}
}

// erasing starts a run that installs a machine.
func erasing(machine, request string) *internalv1.StartRun {
	return &internalv1.StartRun{RunId: "run-" + machine + request, MachineId: machine, RequestId: request, Type: "REPAVE",
		Params: map[string]string{"image": "default"}}
}

// conflictAudit returns the audit events about conflicts, oldest first.
func conflictAudit(p *fsmtest.Peer) (all []string) {
	events, _ := p.View().AuditAfter(0, 10000)
	for _, e := range events {
		if strings.HasPrefix(e.GetMethod(), identityOf) {
			all = append(all, e.GetMethod()+" "+e.GetReason()+" "+e.GetResource())
		}
	}
	return all
}

// TestConflictStopsStep checks that a run which began before a conflict does not come to the step
// that erases.
func TestConflictStopsStep(t *testing.T) {
	p := nodePeer(t)
	do(t, p, boardReport("S1", uuidA, ""))
	run := start(t, p, "m-1", "r", "REPAVE", "ubuntu").GetRunId()
	begin := &internalv1.BeginAttempt{RunId: run, Step: "repave", Attempt: 1}
	p.Propose(&internalv1.Command{Op: &internalv1.Command_ReportNode{ReportNode: boardReport("S2", uuidA, "")}})
	r := p.Propose(&internalv1.Command{Op: &internalv1.Command_BeginAttempt{BeginAttempt: begin}})[0]
	if r.Err == nil || r.Err.Reason != "IDENTITY_CONFLICT" {
		t.Errorf("got %v, want a refusal", r.Err)
	}
	do(t, p, &internalv1.UpdateMachine{Machine: &holdfastv1.Machine{MachineId: "m-1",
		Spec: &holdfastv1.MachineSpec{Serial: "S2"}}, Paths: []string{"spec.serial"}})
	do(t, p, begin)
}

// TestConflictStopsInstaller checks that an installer does not begin after a conflict has, and that
// one which has begun is left, because its disk would be half written.
func TestConflictStopsInstaller(t *testing.T) {
	for name, tt := range map[string]struct {
		before []string // reports of the installer
		report string
		stops  bool
	}{
		"not begun":        {nil, "started", true},
		"begins once more": {[]string{"started", "progress"}, "started", true},
		"writing":          {[]string{"started"}, "progress", false},
		"done":             {[]string{"started", "progress"}, "complete", false},
	} {
		t.Run(name, func(t *testing.T) {
			p := nodePeer(t)
			do(t, p, boardReport("S1", uuidA, ""))
			run := start(t, p, "m-1", "r", "REPAVE", "ubuntu").GetRunId()
			do(t, p, &internalv1.BeginAttempt{RunId: run, Step: "repave", Attempt: 1})
			do(t, p, &internalv1.OpenInstall{RunId: run, Step: "repave", Attempt: 1, Image: "debian"})
			sum := fsmtest.TokenValue("one")
			do(t, p, &internalv1.BootInstall{MachineId: "m-1", Sha256: sum})
			say := func(status string) *internalv1.ReportInstall {
				return &internalv1.ReportInstall{Sha256: sum, Report: &holdfastv1.ReportInstallRequest{Status: status}}
			}
			for _, status := range tt.before {
				do(t, p, say(status))
			}
			was, _ := p.View().Install("m-1")
			p.Propose(&internalv1.Command{Op: &internalv1.Command_ReportNode{ReportNode: boardReport("S2", uuidA, "")}})
			if !tt.stops {
				do(t, p, say(tt.report))
				return
			}
			refused(t, p, say(tt.report), fsm.OutOfRange, fsm.ReasonInstallOver)
			if is, _ := p.View().Install("m-1"); is.GetStage() != was.GetStage() {
				t.Errorf("after the refusal: got stage %s, want %s", is.GetStage(), was.GetStage())
			}
		})
	}
}
