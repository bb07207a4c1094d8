package fsm_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/fsm/fsmtest"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// readHardware runs plan/inventory, with an inventory as the result.
func readHardware(t *testing.T, p *fsmtest.Peer, request string, h *holdfastv1.HardwareInventory) {
	t.Helper()
	run := start(t, p, "m", request, "", "plan/inventory")
	begin(t, p, run.GetRunId())
	do(t, p, &internalv1.EndAttempt{RunId: run.GetRunId(), Step: "inventory", Attempt: 1, Outcome: succeeded,
		Inventory: h})
}

func TestHardwareIsKeptBoundedAndCompared(t *testing.T) {
	p := fsmtest.NewPeer()
	register(t, p, "m", ready)
	big := &holdfastv1.HardwareInventory{Serial: strings.Repeat("ü", 100)}
	for i := range 300 {
		big.Parts = append(big.Parts, &holdfastv1.HardwarePart{Kind: "memory", Slot: fmt.Sprint(i), Serial: "\xff" +
			strings.Repeat("x", 100)})
	}
	// Protobuf refuses text that is not UTF-8, so the executor repairs it before.
	for _, part := range big.GetParts() {
		part.Serial = strings.ToValidUTF8(part.GetSerial(), "?")
	}
	readHardware(t, p, "r-1", big)
	h := p.View().Hardware("m")
	if len(h.GetParts()) != 200 || h.GetLeftOut() != 100 || len(h.GetSerial()) > 64 ||
		len(h.GetParts()[0].GetSerial()) > 64 || h.GetSource() != "bmc" {
		t.Errorf("kept %d parts, %d left out, serial number of %d bytes, source %q", len(h.GetParts()), h.GetLeftOut(),
			len(h.GetSerial()), h.GetSource())
	}
	disk := func(serial string) *holdfastv1.HardwareInventory {
		return &holdfastv1.HardwareInventory{Serial: "S", BiosVersion: "1",
			Parts: []*holdfastv1.HardwarePart{{Kind: "disk", Slot: "1", Serial: serial}}}
	}
	readHardware(t, p, "r-2", disk("A"))
	readHardware(t, p, "r-3", disk("A"))
	changed := disk("B")
	changed.BiosVersion = "2"
	readHardware(t, p, "r-4", changed)
	readHardware(t, p, "r-5", &holdfastv1.HardwareInventory{Serial: "S", Missing: []string{"disks: no answer"}})
	var got []string
	for e := range p.View().History("m", 0) {
		if e.GetFacet() == "inventory" && strings.HasPrefix(e.GetTo(), "hardware") && e.GetRunId() != "run-r-2" {
			got = append(got, e.GetRunId()+" "+e.GetTo())
		}
	}
	if diff := cmp.Diff([]string{"run-r-4 hardware: bios 1 -> 2, disk 1 A gone, disk 1 B new"}, got); diff != "" {
		t.Errorf("history (-want +got):\n%s", diff)
	}
	m, _ := p.View().Machine("m")
	if m.GetSpec().GetSerial() != "" || m.GetNode().GetSerialNumber() != "" ||
		m.GetStatus().GetPhase() != holdfastv1.MachineStatus_READY {
		t.Errorf("what operators and agents say has changed: %v", m)
	}
	do(t, p, &internalv1.DeleteMachine{MachineId: "m"})
	if h := p.View().Hardware("m"); h != nil {
		t.Errorf("hardware of a machine that is gone: %v", h)
	}
}

// A console does not block its machine, is the only console, and prevents the deletion of the
// machine.
func TestConsoleRunsBesideActiveRun(t *testing.T) {
	p := fsmtest.NewPeer()
	register(t, p, "m", ready)
	console := start(t, p, "m", "c-1", "", "plan/console")
	m, _ := p.View().Machine("m")
	if !console.GetBeside() || m.GetStatus().GetActiveRunId() != "" ||
		m.GetStatus().GetPhase() != holdfastv1.MachineStatus_READY {
		t.Errorf("console %v, machine %v", console, m.GetStatus())
	}
	refused(t, p, &internalv1.StartRun{RunId: "run-2", MachineId: "m", RequestId: "c-2", PlanId: "plan/console"},
		fsm.FailedPrecondition, fsm.ReasonConsoleOpen)
	refused(t, p, &internalv1.DeleteMachine{MachineId: "m"}, fsm.FailedPrecondition, fsm.ReasonActiveRun)
	start(t, p, "m", "r-1", "REBOOT", "")
	begin(t, p, console.GetRunId())
	do(t, p, &internalv1.EndAttempt{RunId: console.GetRunId(), Step: "console", Attempt: 1, Outcome: failed,
		Error: "the BMC has ended it", Permanent: true})
	m, _ = p.View().Machine("m")
	if m.GetStatus().GetActiveRunId() != "run-r-1" ||
		m.GetStatus().GetPhase() != holdfastv1.MachineStatus_PROVISIONING || len(m.GetStatus().GetBanners()) != 0 {
		t.Errorf("after the console has failed: %v", m.GetStatus())
	}
	start(t, p, "m", "c-3", "", "plan/console")
	if bad := fsm.ValidatePlan(planOf("plan/x", "console", "ssh")); len(bad) != 1 {
		t.Errorf("a console among other steps: got %v, want it refused", bad)
	}
}
