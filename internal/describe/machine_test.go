package describe_test

import (
	"testing"

	"github.com/holdfast-metal/holdfast/internal/describe"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

func TestHardware(t *testing.T) {
	for want, h := range map[string]*holdfastv1.HardwareSummary{
		"": nil,
		"2 CPUs, 64 cores, 512 GiB, 1 disk 3.8 TB, 8 GPUs, x86_64": {Cpus: new(int32(2)), Cores: new(int32(64)),
			MemoryBytes: new(int64(512 << 30)), Disks: new(int32(1)), DiskBytes: new(int64(3_840_000_000_000)),
			Gpus: new(int32(8)), Arch: "x86_64"},
		"4 cores": {Cores: new(int32(4)), Gpus: new(int32(0))},
		"at least 64 GiB, 2 disks at least 1.0 TB": {MemoryBytes: new(int64(64 << 30)), Disks: new(int32(2)),
			DiskBytes: new(int64(1e12)), Partial: []string{"memory_bytes", "disk_bytes"}},
	} {
		if got := describe.Hardware(h); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// The colour of a condition follows its meaning, not its status.
func TestConditionMeaning(t *testing.T) {
	free, serving := &holdfastv1.MachineStatus{}, &holdfastv1.MachineStatus{Phase: holdfastv1.MachineStatus_IN_SERVICE}
	for _, tt := range []struct {
		s    *holdfastv1.MachineStatus
		c    *holdfastv1.Condition
		want describe.Meaning
	}{
		{free, &holdfastv1.Condition{Type: "Reachable", Status: true}, describe.Good},
		{free, &holdfastv1.Condition{Type: "Reachable"}, describe.Bad},
		{free, &holdfastv1.Condition{Type: "Reachable", Unknown: true}, describe.Unclear},
		{free, &holdfastv1.Condition{Type: "NeedsIntervention", Status: true}, describe.Bad},
		{free, &holdfastv1.Condition{Type: "Degraded"}, describe.Good},
		{free, &holdfastv1.Condition{Type: "PoweredOn"}, describe.Neutral},
		{serving, &holdfastv1.Condition{Type: "PoweredOn"}, describe.Bad},
		{serving, &holdfastv1.Condition{Type: "InCustomerCluster"}, describe.Bad},
	} {
		if got := describe.ConditionMeaning(tt.s, tt.c); got != tt.want {
			t.Errorf("%v in phase %s: got %s, want %s", tt.c, tt.s.GetPhase(), got, tt.want)
		}
	}
}

func TestIdle(t *testing.T) {
	serving := holdfastv1.EffectiveState_IN_SERVICE
	for want, s := range map[string]*holdfastv1.MachineStatus{
		"idle": {Phase: holdfastv1.MachineStatus_IN_SERVICE, EffectiveState: serving},
		"idle in phase READY, its node is still in cluster prod": {Phase: holdfastv1.MachineStatus_READY,
			EffectiveState: serving, ClusterRef: "prod"},
	} {
		if got := describe.Idle(&holdfastv1.Machine{Status: s}); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestCores(t *testing.T) {
	for millis, want := range map[int64]string{1000: "1 core", 64_000: "64 cores", 2500: "2500m", 0: ""} {
		if got := describe.Cores(millis); got != want {
			t.Errorf("%d: got %q, want %q", millis, got, want)
		}
	}
}
