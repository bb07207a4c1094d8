package ui

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/types/known/timestamppb"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// machineBody is the page of one machine.
type machineBody struct {
	Machine                     *holdfastv1.Machine
	Why                         *holdfastv1.MachineExplanation
	Active                      *holdfastv1.Run // nil if no run is active
	Runs                        []*holdfastv1.Run
	MoreRuns                    string
	History                     []*holdfastv1.HistoryEntry
	OlderHistory                string
	Facts                       []fact
	MayRun, MayMove, MayApprove bool
}

type fact struct {
	Name, Value string
	At          *timestamppb.Timestamp
}

func (d *dashboard) machine(v *visit) error {
	id := v.r.PathValue("id")
	m, err := v.read.machines.GetMachine(v.ctx, &holdfastv1.GetMachineRequest{MachineId: id})
	if err != nil {
		return err
	}
	b := machineBody{Machine: m, Facts: facts(m)}
	b.Why, err = v.read.machines.ExplainMachine(v.ctx, &holdfastv1.ExplainMachineRequest{MachineId: id})
	if err != nil {
		return err
	}
	req := &holdfastv1.ListRunsRequest{Filter: equals("machine_id", id), PageSize: 20}
	runs, err := v.read.runs.ListRuns(v.ctx, req)
	if err != nil {
		return err
	}
	if b.Runs = runs.GetRuns(); runs.GetNextPageToken() != "" {
		b.MoreRuns = link("/ui/runs", "filter", equals("machine_id", id))
	}
	isActive := func(r *holdfastv1.Run) bool { return r.GetRunId() == m.GetStatus().GetActiveRunId() }
	if i := slices.IndexFunc(b.Runs, isActive); i >= 0 {
		b.Active = b.Runs[i]
	}
	h, err := v.read.machines.ListMachineHistory(v.ctx, &holdfastv1.ListMachineHistoryRequest{
		MachineId: id,
		PageSize:  50,
		PageToken: v.r.URL.Query().Get("history"),
	})
	if err != nil {
		return err
	}
	if b.History = h.GetEntries(); h.GetNextPageToken() != "" {
		b.OlderHistory = link("/ui/machines/"+id, "history", h.GetNextPageToken()) + "#history"
	}
	b.MayRun = v.rules.may(v.who, "RunService/StartRun")
	b.MayMove = v.rules.may(v.who, "MachineService/SetMachinePhase")
	b.MayApprove = m.GetStatus().GetNodeState() == holdfastv1.Node_DISCOVERED &&
		v.rules.may(v.who, "NodeService/TransitionNode")
	return v.page("machine", id, "machines", b, nil)
}

// facts returns the known facts of a machine, in the order of `machine get`: those declared
// by operators, then those reported by its agent and installer.
func facts(m *holdfastv1.Machine) []fact {
	var all []fact
	row := func(name, value string) {
		if value != "" {
			all = append(all, fact{Name: name, Value: value})
		}
	}
	when := func(name string, at *timestamppb.Timestamp) {
		if at != nil {
			all = append(all, fact{Name: name, At: at})
		}
	}
	s, n, a := m.GetSpec(), m.GetNode(), m.GetAgent()
	row("provider", first(s.GetProvider(), m.GetLabels()["provider"]))
	row("pool", s.GetPool())
	row("location", s.GetLocation())
	row("rack", s.GetRack())
	row("serial", s.GetSerial())
	row("customer", s.GetCustomerId())
	row("cluster", s.GetTargetClusterRef())
	row("mac addresses", strings.Join(s.GetMacAddresses(), ", "))
	row("ssh", s.GetSshEndpoint())
	row("ssh credentials", s.GetSshCredentialsRef())
	row("ssh host keys", strings.Join(s.GetSshHostKeys(), "\n"))
	row("bmc", s.GetBmcEndpoint())
	row("bmc credentials", s.GetBmcCredentialsRef())
	for _, k := range slices.Sorted(maps.Keys(m.GetLabels())) {
		row("label "+k, m.GetLabels()[k])
	}
	row("hostname", first(a.GetHostname(), n.GetHostname()))
	row("address", first(a.GetPrivateIp(), n.GetIpAddress()))
	row("mac address", a.GetMacAddress())
	row("vendor", n.GetVendor())
	row("model", n.GetModel())
	row("serial number", n.GetSerialNumber())
	row("system uuid", n.GetSystemUuid())
	row("arch", n.GetArch())
	row("boot mode", n.GetBootMode())
	row("workflow", n.GetWorkflowId())
	row("install error", n.GetLastInstallError())
	if a.GetRegisteredAt() != nil {
		row("cpu", cores(a.GetCpuMillicores()))
		row("memory", size(a.GetMemoryMib()<<20))
		row("gpus", strconv.Itoa(int(a.GetGpuCount())))
		when("registered", a.GetRegisteredAt())
	}
	when("last keepalive", a.GetLastKeepalive())
	row("agent version", a.GetAgentVersion())
	if x := a.GetMetrics(); x != nil {
		row("in use", fmt.Sprintf("cpu %.0f%%, memory %.0f%%, free gpus %d",
			x.GetCpuUtilizationPct(), x.GetMemoryUtilizationPct(), x.GetFreeGpuCount()))
	}
	row("tags", strings.Join(n.GetTags(), ", "))
	when("last seen", n.GetLastSeenAt())
	when("created", m.GetCreatedAt())
	return all
}

func cores(millis int64) string {
	if millis%1000 == 0 {
		return fmt.Sprintf("%d cores", millis/1000)
	}
	return fmt.Sprintf("%dm", millis)
}
