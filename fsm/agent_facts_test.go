package fsm_test

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/fsm/fsmtest"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// factsOp returns a registration with all facts that agents report.
func factsOp(id string, change func(*holdfastv1.RegisterAgentRequest)) *internalv1.RegisterAgent {
	op := agentOp(id, "gpu")
	op.Agent.Hardware = &holdfastv1.NodeRecord{Vendor: "ACME", Model: "X1", SerialNumber: "S-1", SystemUuid: "4c4c4544",
		Arch: "x86_64", BootMode: "uefi"}
	op.Agent.MacAddress = "AA-BB-CC-00-00-01"
	if change != nil {
		change(op.Agent)
	}
	return op
}

// inventoryHistory returns the inventory entries of a machine's history, oldest first.
func inventoryHistory(p *fsmtest.Peer, id string) []*holdfastv1.HistoryEntry {
	var entries []*holdfastv1.HistoryEntry
	for e := range p.View().History(id, 0) {
		if e.GetFacet() == "inventory" {
			entries = append([]*holdfastv1.HistoryEntry{e}, entries...)
		}
	}
	return entries
}

func TestAgentFactsAreKept(t *testing.T) {
	p := gpuPool(t)
	m := do(t, p, factsOp("m-9", nil)).(*holdfastv1.Machine)
	same(t, "hardware", &holdfastv1.NodeRecord{Vendor: "ACME", Model: "X1", SerialNumber: "S-1", SystemUuid: "4c4c4544",
		Arch: "x86_64", BootMode: "uefi"}, m.GetNode())
	if a := m.GetAgent(); a.GetMacAddress() != "aa:bb:cc:00:00:01" || a.GetCpuMillicores() != 8000 ||
		a.GetMemoryMib() != 16384 || a.GetPrivateIp() != "192.168.1.100" {
		t.Errorf("got %v", a)
	}
	if got := m.GetSpec(); len(got.GetMacAddresses()) != 0 || got.GetSerial() != "" {
		t.Errorf("what an agent says claims nothing that belongs to one machine alone: %v", got)
	}
	if got := inventoryHistory(p, "m-9"); len(got) != 0 {
		t.Errorf("what is said for the first time has changed nothing: %v", got)
	}
	// A false serial and MAC address of another machine do no harm.
	do(t, p, factsOp("m-8", nil))
	before := dump(t, p)
	do(t, p, factsOp("m-9", nil))
	if got := inventoryHistory(p, "m-9"); len(got) != 0 {
		t.Errorf("nothing is another than before: %v\n%s", got, before.Diff(dump(t, p)))
	}

	// A lost GPU and another board. An older agent that reports less clears nothing.
	do(t, p, factsOp("m-9", func(r *holdfastv1.RegisterAgentRequest) {
		r.GpuCount, r.Hostname, r.MacAddress = 0, "gpu-worker-2", ""
		r.Hardware = &holdfastv1.NodeRecord{SerialNumber: "S-2"}
	}))
	got := inventoryHistory(p, "m-9")
	if len(got) != 1 {
		t.Fatalf("got %v, want one entry", got)
	}
	same(t, "to", "agent.hostname, agent.gpu_count, node.serial_number", got[0].GetTo())
	same(t, "metadata", map[string]string{"agent.hostname": "gpu-worker-1 -> gpu-worker-2", "agent.gpu_count": "1 -> 0",
		"node.serial_number": "S-1 -> S-2"}, got[0].GetMetadata())
	m = getMachine(t, p, "m-9")
	if m.GetNode().GetVendor() != "ACME" || m.GetNode().GetSerialNumber() != "S-2" ||
		m.GetAgent().GetMacAddress() != "aa:bb:cc:00:00:01" || m.GetAgent().GetGpuCount() != 0 {
		t.Errorf("got %v", m)
	}
	if got[0].GetTriggeredBy() != "agent" {
		t.Errorf("triggered by %q", got[0].GetTriggeredBy())
	}
}

// TestAgentsSetOnlyTheirFields checks that agents cannot set tags, workflow and group.
// If an agent contradicts an operator's value, the history shows it.
func TestAgentsSetOnlyTheirFields(t *testing.T) {
	p := gpuPool(t)
	register(t, p, "m-2", ready)
	do(t, p, &internalv1.UpdateNode{Id: "m-2", Node: &holdfastv1.NodeRecord{Hostname: "n1", IpAddress: "10.0.0.1",
		Vendor: "Acme Inc.", Tags: []string{"gpu"}}})
	m := do(t, p, factsOp("m-2", func(r *holdfastv1.RegisterAgentRequest) {
		proto.Merge(r.GetHardware(), &holdfastv1.NodeRecord{Hostname: "h", IpAddress: "10.6.6.6", WorkflowId: "plan/reboot",
			GroupId: "g", Tags: []string{"x"}, InstallAttempts: 3, LastInstallError: "e"})
	})).(*holdfastv1.Machine)
	n := m.GetNode()
	if n.GetHostname() != "n1" || n.GetIpAddress() != "10.0.0.1" || n.GetWorkflowId() != "" || n.GetGroupId() != "" ||
		len(n.GetTags()) != 1 || n.GetInstallAttempts() != 0 || n.GetLastInstallError() != "" {
		t.Errorf("got %v", n)
	}
	got := inventoryHistory(p, "m-2")
	if last := got[len(got)-1]; last.GetMetadata()["node.vendor"] != "Acme Inc. -> ACME" ||
		!strings.Contains(last.GetTo(), "node.vendor") || strings.Contains(last.GetTo(), "node.model") {
		t.Errorf("got %v", last)
	}
}

func TestAgentFactsAreBounded(t *testing.T) {
	p := gpuPool(t)
	long := strings.Repeat("x", 256)
	for name, change := range map[string]func(*holdfastv1.RegisterAgentRequest){
		"long":        func(r *holdfastv1.RegisterAgentRequest) { r.Hardware.Model = long },
		"two lines":   func(r *holdfastv1.RegisterAgentRequest) { r.Hardware.Vendor = "a\nb" },
		"MAC address": func(r *holdfastv1.RegisterAgentRequest) { r.MacAddress = "aa:bb" },
		"tags":        func(r *holdfastv1.RegisterAgentRequest) { r.Hardware.Tags = make([]string, 65) },
	} {
		if r := p.Do(factsOp("m-9", change)); r.Err == nil || r.Err.Code != fsm.InvalidArgument {
			t.Errorf("%s: got %v", name, r.Err)
		}
	}
}
