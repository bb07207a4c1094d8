package clitest

import (
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Ago returns a time before now.
func Ago(d time.Duration) *timestamppb.Timestamp { return timestamppb.New(Now().Add(-d)) }

// Fixture returns a small cluster with an example of everything.
func Fixture() *Cluster {
	return &Cluster{
		Machines: fixtureMachines(), Plans: fixturePlans(), Runs: FixtureRuns(),
		History: []*holdfastv1.HistoryEntry{
			{MachineId: "m-124", Sequence: 2, At: Ago(40 * time.Minute), Facet: "phase", From: "PROVISIONING",
				To:          "MAINTENANCE",
				TriggeredBy: "run", RunId: "run-788", Comment: "step reboot failed", Metadata: map[string]string{"step": "reboot",
					"attempt": "3"}},
			{MachineId: "m-124", Sequence: 1, At: Ago(50 * time.Hour), Facet: "inventory", To: "READY",
				TriggeredBy: "operator", Principal: "alice"},
		},
		Why: &holdfastv1.MachineExplanation{
			MachineId: "m-123", EffectiveState: holdfastv1.EffectiveState_PROVISIONING, Banners: []string{"Degraded: FanFailed"},
			Summary: "its run waits for the installer", RunId: "run-789", Step: "repave-os", Attempt: 2,
			Wait: fixtureWait(), Deadline: Ago(-12 * time.Minute),
			NextActionAt: Ago(-20 * time.Second),
			LastError:    "the installer did not report in time", Suggestions: []string{"holdfast run logs run-789",
				"holdfast run cancel run-789"},
		},
		Cluster: &holdfastv1.ClusterStatus{
			ClusterId: "c-1", Leader: "peer-1", Term: 7, FeatureLevel: 1, FailureTolerance: 1, AnsweredBy: "peer-2",
			LastBackupAt: Ago(5 * time.Hour),
			Peers: []*holdfastv1.Peer{
				{Id: "peer-1", Suffrage: "voter", Leader: true, Alive: true, GrpcAddr: "10.0.0.1:7400", Version: "v1.2.0",
					AppliedIndex: 4711, MaxFeatureLevel: 1, MayVote: true},
				{Id: "peer-2", Suffrage: "voter", Alive: true, GrpcAddr: "10.0.0.2:7400", Version: "v1.2.0", AppliedIndex: 4711,
					LastContactMs: 12, MaxFeatureLevel: 1, MayVote: true},
				{Id: "peer-3", Suffrage: "voter", GrpcAddr: "10.0.0.3:7400", LastContactMs: -1, Error: "connection refused"},
			},
		},
		Tokens: fixtureTokens(), Trail: FixtureTrail(),
		Pools: fixturePools(), Services: fixtureServices(),
		Log: "power off\npower on\nboot id changed\n",
	}
}

func fixtureMachines() []*holdfastv1.Machine {
	return []*holdfastv1.Machine{
		{
			MachineId: "m-123", Labels: map[string]string{"env": "prod", "role": "worker", "provider": "dc-1"},
			Spec: &holdfastv1.MachineSpec{SshEndpoint: "10.20.30.40:22", BmcEndpoint: "10.20.30.41",
				TargetClusterRef: "cluster-a",
				MacAddresses:     []string{"aa:bb:cc:dd:ee:ff"}, Rack: "r7", Location: "fra"},
			Status: &holdfastv1.MachineStatus{Phase: holdfastv1.MachineStatus_PROVISIONING, ActiveRunId: "run-789",
				EffectiveState: holdfastv1.EffectiveState_PROVISIONING, NodeState: holdfastv1.Node_INSTALLING,
				AgentState: holdfastv1.Agent_READY, Power: holdfastv1.PowerState_ON, PowerObservedAt: Ago(9 * time.Second),
				Conditions: []*holdfastv1.Condition{
					{Type: "Reachable", Status: true, Reason: "PingOK", LastTransition: Ago(3 * time.Hour),
						ObservedAt: Ago(9 * time.Second)},
					{Type: "InCustomerCluster", Status: false, Reason: "NotJoined", LastTransition: Ago(72 * time.Hour)},
				}},
			HardwareSummary: &holdfastv1.HardwareSummary{Cpus: new(int32(2)), Cores: new(int32(64)),
				MemoryBytes: new(int64(512 << 30)), Arch: "x86_64"},
			CreatedAt: Ago(80 * time.Hour), UpdatedAt: Ago(3 * time.Minute), Revision: 4711,
			Hardware: &holdfastv1.HardwareInventory{
				Source: "bmc", ObservedAt: Ago(26 * time.Hour), RunId: "run-700", Manufacturer: "Contoso", Model: "Model 9",
				Serial: "SN-0001", BiosVersion: "P79 v1.45", BmcVersion: "3.05", MemoryBytes: new(int64(32 << 30)),
				Parts: []*holdfastv1.HardwarePart{
					{Kind: "cpu", Slot: "CPU 1", Model: "Contoso 9654", Cores: new(int32(96)), Threads: new(int32(192)), State: "ok"},
					{Kind: "memory", Slot: "DIMM A1", Model: "DDR5", Serial: "D1", Bytes: new(int64(32 << 30)), State: "failed"},
					{Kind: "disk", Slot: "1", Model: "Contoso PM9 SSD", Serial: "S1", Firmware: "1.2", Bytes: new(int64(960197124096)),
						State: "ok"},
					{Kind: "nic", Slot: "1", Mac: "52:54:00:aa:00:01", Mbps: new(int32(25000)), State: "up"},
				},
				Missing: []string{"firmware of the drives: the BMC does not show it"}, LeftOut: 2,
			},
		},
		{
			MachineId: "m-124", Spec: &holdfastv1.MachineSpec{Provider: "fake", Serial: "SN-1"},
			Status: &holdfastv1.MachineStatus{Phase: holdfastv1.MachineStatus_MAINTENANCE,
				EffectiveState: holdfastv1.EffectiveState_MAINTENANCE,
				Banners:        []string{"NeedsIntervention: StepFailed"},
				Power:          holdfastv1.PowerState_OFF, PowerObservedAt: Ago(12 * time.Second), NeedsAttention: true,
				Issues: []*holdfastv1.Issue{{Urgency: holdfastv1.Issue_URGENT, Type: "NeedsIntervention",
					Reason: "StepFailed", Since: Ago(40 * time.Minute)}},
				Conditions: []*holdfastv1.Condition{{Type: "NeedsIntervention", Status: true, Reason: "StepFailed",
					LastTransition: Ago(40 * time.Minute)}, {Type: "PoweredOn", Reason: "ByRun",
					Message: "run-788 (REBOOT)", LastTransition: Ago(41 * time.Minute)}}},
			CreatedAt: Ago(50 * time.Hour), UpdatedAt: Ago(40 * time.Minute), Revision: 4000,
		},
		{
			MachineId: "m-125", Spec: &holdfastv1.MachineSpec{Pool: "gpu"},
			Status: &holdfastv1.MachineStatus{Phase: holdfastv1.MachineStatus_READY,
				EffectiveState: holdfastv1.EffectiveState_READY, AgentState: holdfastv1.Agent_READY},
			Node: &holdfastv1.NodeRecord{Vendor: "ACME", Model: "X1", SerialNumber: "S-1", SystemUuid: "4c4c4544-0042",
				Arch: "x86_64", BootMode: "uefi", Tags: []string{"gpu", "h100"}},
			Agent: &holdfastv1.AgentRecord{ProviderName: "generic", Hostname: "gpu-worker-1", PrivateIp: "192.168.1.100",
				MacAddress: "aa:bb:cc:00:00:01", CpuMillicores: 8000, MemoryMib: 16384,
				GpuCount: 1, AgentVersion: "0.1.0", RegisteredAt: Ago(2 * time.Hour), LastKeepalive: Ago(20 * time.Second),
				Metrics: &holdfastv1.AgentMetrics{CpuUtilizationPct: 15.5, MemoryUtilizationPct: 42.3, FreeGpuCount: 1}},
		},
	}
}

func fixturePlans() []*holdfastv1.Plan {
	return []*holdfastv1.Plan{
		{PlanId: "plan-repave-ubuntu-2204-v1", DisplayName: "Repave Ubuntu 22.04 + Join Cluster", Referenced: true,
			CreatedAt: Ago(72 * time.Hour), Steps: []*holdfastv1.Step{
				{Name: "set-netboot", TimeoutSeconds: 60, MaxRetries: proto.Int32(2),
					Kind: &holdfastv1.Step_Netboot{Netboot: &holdfastv1.SetNetboot{Mode: "PXE", Uefi: true}}},
				{Name: "repave-os", TimeoutSeconds: 1800, MaxRetries: proto.Int32(0),
					Kind: &holdfastv1.Step_Repave{Repave: &holdfastv1.RepaveImage{Image: "ubuntu-22.04"}}},
				{Name: "setup",
					Kind: &holdfastv1.Step_Ssh{Ssh: &holdfastv1.SshCommand{Script: "set -e\napt-get install -y containerd " +
						"kubeadm kubelet\n"}}},
				{Name: "verify", Kind: &holdfastv1.Step_Verify{Verify: &holdfastv1.VerifyInCluster{ClusterRef: "cluster-a",
					Timeout: durationpb.New(90 * time.Second)}}},
			}},
		{PlanId: "plan/reboot", DisplayName: "Reboot", BuiltIn: true, Steps: []*holdfastv1.Step{
			{Name: "reboot", Kind: &holdfastv1.Step_Reboot{Reboot: &holdfastv1.Reboot{}}},
		}},
	}
}

// FixtureRuns returns an active run and one that failed.
func FixtureRuns() []*holdfastv1.Run {
	return []*holdfastv1.Run{
		{
			RunId: "run-789", MachineId: "m-123", RequestId: "req-456", Type: "REPAVE", PlanId: "plan-repave-ubuntu-2204-v1",
			Phase: holdfastv1.Run_RUNNING, CurrentStep: "repave-os", Revision: 9,
			CreatedAt: Ago(10 * time.Minute), StartedAt: Ago(9*time.Minute + 55*time.Second),
			Wait: fixtureWait(), Deadline: Ago(-12 * time.Minute),
			Principal: "alice",
			Steps: []*holdfastv1.StepStatus{
				{Name: "set-netboot", Kind: "netboot", State: holdfastv1.StepStatus_SUCCEEDED, MaxRetries: 2,
					StartedAt: Ago(595 * time.Second), FinishedAt: Ago(591 * time.Second)},
				{Name: "repave-os", Kind: "repave", State: holdfastv1.StepStatus_RUNNING, RetryCount: 1, MaxRetries: 1,
					StartedAt: Ago(591 * time.Second)},
				{Name: "verify", Kind: "verify", State: holdfastv1.StepStatus_WAITING},
			},
		},
		{
			RunId: "run-788", MachineId: "m-124", RequestId: "req-1", Type: "REBOOT", PlanId: "plan/reboot",
			Phase: holdfastv1.Run_FAILED, CurrentStep: "reboot", Revision: 8,
			CreatedAt: Ago(45 * time.Minute), StartedAt: Ago(45 * time.Minute), FinishedAt: Ago(40 * time.Minute),
			Error: &holdfastv1.RunError{Reason: "StepFailed", Message: "the BMC does not answer", Step: "reboot", Attempt: 3},
			Steps: []*holdfastv1.StepStatus{
				{Name: "reboot", Kind: "reboot", State: holdfastv1.StepStatus_FAILED, RetryCount: 2, MaxRetries: 2,
					StartedAt: Ago(45 * time.Minute), FinishedAt: Ago(40 * time.Minute), Message: "power state is unknown"},
			},
		},
	}
}

// fixtureWait returns a wait as a server sends it, with its sentence.
func fixtureWait() *holdfastv1.Wait {
	return &holdfastv1.Wait{Kind: holdfastv1.Wait_INSTALLER, Value: "reports", Since: Ago(3 * time.Minute),
		Sentence: "the installer's reports"}
}

// Succeeded returns the first run after its success.
func Succeeded() *holdfastv1.Run {
	r := FixtureRuns()[0]
	r.Phase, r.CurrentStep, r.Wait, r.FinishedAt, r.Revision = holdfastv1.Run_SUCCEEDED, "", nil, Ago(0), 12
	for _, s := range r.GetSteps() {
		s.State, s.FinishedAt = holdfastv1.StepStatus_SUCCEEDED, Ago(0)
	}
	return r
}

// FailedRun returns the first run after a failure.
func FailedRun() *holdfastv1.Run {
	r := FixtureRuns()[0]
	r.Phase, r.Wait, r.FinishedAt, r.Revision = holdfastv1.Run_FAILED, nil, Ago(0), 12
	r.Error = &holdfastv1.RunError{Reason: "StepFailed", Message: "the disk is gone", Step: "repave-os", Attempt: 2}
	r.GetSteps()[1].State = holdfastv1.StepStatus_FAILED
	return r
}
