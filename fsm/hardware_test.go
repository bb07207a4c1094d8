package fsm_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

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
	readHardware(t, p, "r-5", &holdfastv1.HardwareInventory{Serial: "S", Missing: []string{"disks: no answer"},
		Unread: []string{"disk"}})
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

// TestUnreadHardwareIsKept checks that a reading which fails for some parts keeps those that were
// known, says nothing about them in the history, and drops the others.
func TestUnreadHardwareIsKept(t *testing.T) {
	p := fsmtest.NewPeer()
	register(t, p, "m", ready)
	part := func(kind, slot string, bytes int64) *holdfastv1.HardwarePart {
		return &holdfastv1.HardwarePart{Kind: kind, Slot: slot, Bytes: &bytes, State: "ok"}
	}
	readHardware(t, p, "r-1", &holdfastv1.HardwareInventory{Serial: "S", MemoryBytes: new(int64(3)),
		Parts: []*holdfastv1.HardwarePart{
			part("cpu", "1", 0), part("memory", "A1", 1), part("memory", "A2", 2), part("disk", "0", 5), part("disk", "1", 6),
			part("nic", "1", 0), part("nic", "2", 0),
		}})
	readHardware(t, p, "r-2", &holdfastv1.HardwareInventory{
		Missing: []string{"memory: busy"}, Unread: []string{"memory", "disk", "bogus"},
		Parts: []*holdfastv1.HardwarePart{part("cpu", "1", 0), part("disk", "1", 7), part("nic", "1", 0)},
	})
	h := p.View().Hardware("m")
	var got []string
	for _, part := range h.GetParts() {
		got = append(got, fmt.Sprint(part.GetKind(), " ", part.GetSlot(), " ", part.GetBytes(), " ", part.GetState()))
	}
	want := []string{"cpu 1 0 ok", "disk 1 7 ok", "nic 1 0 ok", "memory A1 1 unread, was ok", "memory A2 2 unread, was ok",
		"disk 0 5 unread, was ok"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("parts (-want +got):\n%s", diff)
	}
	if h.GetMemoryBytes() != 3 || h.GetSerial() != "S" || strings.Join(h.GetUnread(), " ") != "memory disk" {
		t.Errorf("got %d bytes of memory, serial number %q, unread %q", h.GetMemoryBytes(), h.GetSerial(), h.GetUnread())
	}
	for e := range p.View().History("m", 0) {
		if e.GetRunId() == "run-r-2" && strings.HasPrefix(e.GetTo(), "hardware") && e.GetTo() != "hardware: nic 2 gone" {
			t.Errorf("history: got %q, want only the port that is gone", e.GetTo())
		}
	}
	// What is missing otherwise keeps no part: these disks were read, and there are none.
	for i, want := range []string{"unread, was ok", "unread, was ok", ""} {
		next := &holdfastv1.HardwareInventory{Missing: []string{"firmware of the BMC: busy"}}
		if want != "" {
			next.Unread = []string{"disk"}
		}
		readHardware(t, p, fmt.Sprint("r-", i+3), next)
		state := ""
		for _, part := range p.View().Hardware("m").GetParts() {
			state = part.GetState()
		}
		if state != want {
			t.Errorf("state of a disk: got %q, want %q", state, want)
		}
	}
}

// A console does not block its machine, is the only console, and prevents the deletion of the
// machine.
func TestConsoleIsConcurrent(t *testing.T) {
	p := fsmtest.NewPeer()
	register(t, p, "m", ready)
	console := start(t, p, "m", "c-1", "", "plan/console")
	m, _ := p.View().Machine("m")
	if !console.GetConcurrent() || m.GetStatus().GetActiveRunId() != "" ||
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

// TestUnknownSizes checks that a quantity which no part shows is absent, and that a sum which lacks
// some parts is a lower limit.
func TestUnknownSizes(t *testing.T) {
	part := func(kind string, bytes *int64, cores *int32) *holdfastv1.HardwarePart {
		return &holdfastv1.HardwarePart{Kind: kind, Bytes: bytes, Cores: cores}
	}
	for name, tt := range map[string]struct {
		in   *holdfastv1.HardwareInventory
		want *holdfastv1.HardwareSummary
	}{
		"all known": {
			&holdfastv1.HardwareInventory{MemoryBytes: new(int64(3)), Parts: []*holdfastv1.HardwarePart{
				part("cpu", nil, new(int32(8))), part("memory", new(int64(3)), nil), part("disk", new(int64(5)), nil)}},
			&holdfastv1.HardwareSummary{Cpus: new(int32(1)), Cores: new(int32(8)), MemoryBytes: new(int64(3)),
				Disks: new(int32(1)), DiskBytes: new(int64(5)), Gpus: new(int32(0))},
		},
		"no size": {
			&holdfastv1.HardwareInventory{Unread: []string{"gpu"}, Parts: []*holdfastv1.HardwarePart{
				part("cpu", nil, nil), part("memory", nil, nil), part("disk", nil, nil)}},
			&holdfastv1.HardwareSummary{Cpus: new(int32(1)), Disks: new(int32(1))},
		},
		"one size of two": {
			&holdfastv1.HardwareInventory{MemoryBytes: new(int64(3)), Unread: []string{"cpu"},
				Parts: []*holdfastv1.HardwarePart{
					part("cpu", nil, new(int32(8))), part("memory", new(int64(3)), nil), part("memory", nil, nil),
					part("disk", new(int64(5)), nil), part("disk", nil, nil)}},
			&holdfastv1.HardwareSummary{Cpus: new(int32(1)), Cores: new(int32(8)), MemoryBytes: new(int64(3)),
				Disks: new(int32(2)), DiskBytes: new(int64(5)), Gpus: new(int32(0)),
				Partial: []string{"cpus", "cores", "memory_bytes", "disk_bytes"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := fsmtest.NewPeer()
			register(t, p, "m", ready)
			readHardware(t, p, "r-1", tt.in)
			if diff := cmp.Diff(tt.want, p.View().HardwareSummary(getMachine(t, p, "m")), protocmp.Transform()); diff != "" {
				t.Errorf("summary (-want +got):\n%s", diff)
			}
		})
	}
}
