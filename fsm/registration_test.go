package fsm_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/fsm/fsmtest"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// A registration does not record a state that was never reported.
func TestRegistrationRecordsNoHealth(t *testing.T) {
	p := fsmtest.NewPeer()
	do(t, p, serviceOp(uuid, ""))
	s := do(t, p, &internalv1.UpdateServiceState{Id: uuid,
		State: &holdfastv1.ServiceState{Reason: "slow"}}).(*holdfastv1.Service)
	if diff := cmp.Diff([]string{"slow"}, reasons(s)); diff != "" {
		t.Errorf("activity record (-want +got):\n%s", diff)
	}
}

// A healthy pool that registers again stays in placement. An unavailable one waits for its
// heartbeat.
func TestRegisteringAgainKeepsPlacement(t *testing.T) {
	for _, tt := range []struct {
		name    string
		expired bool
		want    holdfastv1.Pool_Status
		free    int64
	}{
		{"healthy", false, holdfastv1.Pool_HEALTHY, 8},
		{"unavailable", true, holdfastv1.Pool_REGISTERED, 0},
	} {
		p := fsmtest.NewPeer()
		do(t, p, registerPoolOp("p-1"))
		heartbeat(t, p, "p-1", 10, &holdfastv1.Gpu{Id: 0, TotalVramGb: new(float64(24)), AvailableVramGb: new(float64(8)),
			Workers: []string{"w"}})
		if tt.expired {
			expire(t, p, 100, ref(ofPool, "p-1", 1))
		}
		got := do(t, p, registerPoolOp("p-1")).(*holdfastv1.Pool)
		if got.GetStatus() != tt.want || got.GetAvailableVramGb() != tt.free {
			t.Errorf("%s: got %v with %d GB, want %v with %d GB", tt.name, got.GetStatus(), got.GetAvailableVramGb(), tt.want,
				tt.free)
		}
	}
}

func TestCheckPoolReport(t *testing.T) {
	for _, tt := range []struct {
		name  string
		r     *internalv1.PoolReport
		field string
	}{
		{"fine", &internalv1.PoolReport{WorkersTotal: 2, WorkersReady: 1, WorkersBusy: 1}, ""},
		{"no total", &internalv1.PoolReport{Gpus: []*holdfastv1.Gpu{{AvailableVramGb: new(float64(1))}}}, ""},
		{"negative", &internalv1.PoolReport{WorkersReady: -1}, "workers_ready"},
		{"more workers than there are", &internalv1.PoolReport{WorkersTotal: 2, WorkersReady: 2, WorkersBusy: 1},
			"workers_total"},
		{"more memory than there is",
			&internalv1.PoolReport{Gpus: []*holdfastv1.Gpu{{TotalVramGb: new(float64(24)), AvailableVramGb: new(float64(25))}}},
			"gpus[0].available_vram_gb"},
		{"twice", &internalv1.PoolReport{Gpus: []*holdfastv1.Gpu{{Id: 1}, {Id: 1}}}, "gpus[1].id"},
	} {
		got := ""
		if bad := fsm.CheckPoolReport(tt.r); len(bad) > 0 {
			got = bad[0].Field
		}
		if got != tt.field {
			t.Errorf("%s: got field %q, want %q", tt.name, got, tt.field)
		}
	}
}
