package cli

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/internal/cli/app"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// The sessions of the fake cluster: one that proceeds with each request, one that fails, and one
// that has ended.
func (f *fakeCluster) GetInstall(_ context.Context, r *holdfastv1.GetInstallRequest) (*holdfastv1.Install, error) {
	asked := len(slices.DeleteFunc(asked[*holdfastv1.GetInstallRequest](f),
		func(o *holdfastv1.GetInstallRequest) bool { return o.GetMachineId() != r.GetMachineId() }))
	i := &holdfastv1.Install{MachineId: r.GetMachineId(), RunId: "run-789", Step: "repave-os", Attempt: 1,
		Image: "debian-13", Disk: "by=smallest", Stage: holdfastv1.Install_WRITING, Progress: 40,
		OpenedAt: timestamppb.New(now().Add(-10 * time.Minute)), BootedAt: timestamppb.New(now().Add(-8 * time.Minute)),
		StageSince: timestamppb.New(now().Add(-8 * time.Minute))}
	switch {
	case f.install != nil:
		return f.install(asked), nil
	case r.GetMachineId() == "m-slow":
	case asked > 1 && r.GetMachineId() == "m-bad":
		i.Stage, i.Error = holdfastv1.Install_FAILED, "2 disks qualify and nothing was written"
	case asked > 1:
		i.Stage, i.Progress = holdfastv1.Install_BOOTED_DISK, 100
	}
	return i, nil
}

func (f *fakeCluster) ListInstalls(
	_ context.Context, r *holdfastv1.ListInstallsRequest,
) (*holdfastv1.ListInstallsResponse, error) {
	all := []*holdfastv1.Install{{MachineId: "m-123", RunId: "run-789", Attempt: 2, Image: "debian-13",
		Stage: holdfastv1.Install_WRITING, Progress: 40}}
	if r.GetAll() {
		all = append(all, &holdfastv1.Install{MachineId: "m-124", RunId: "run-700", Attempt: 1,
			Stage: holdfastv1.Install_COMPLETE, Progress: 100, ClosedAt: timestamppb.New(now())})
	}
	return &holdfastv1.ListInstallsResponse{Installs: all}, nil
}

func TestInstalls(t *testing.T) {
	for name, tt := range map[string]struct {
		args []string
		code int
		out  []string
		none string
	}{
		"open": {[]string{"install", "list"}, app.ExitOK, []string{"m-123", "writing", "40 %", "debian-13", "run-789"},
			"m-124"},
		"all": {[]string{"installs", "ls", "--all"}, app.ExitOK, []string{"m-123", "m-124", "complete (over)",
			"(wipe only)"}, "COMPLETE"},
		"get": {[]string{"install", "get", "m-9"}, app.ExitOK, []string{"writing", "opened", "booted-ipxe", "2m0s"},
			"booted-disk"},
		"watched": {[]string{"install", "watch", "m-8", "--interval", "1ms"}, app.ExitOK,
			[]string{"m-8  writing  40 %", "m-8  booted-disk  100 %"}, "failed"},
		"fails": {[]string{"install", "watch", "m-bad", "--interval", "1ms"}, app.ExitRunFailed,
			[]string{"m-bad  failed  40 %  2 disks qualify"}, "booted-disk"},
		"never": {[]string{"install", "watch", "m-8", "--interval", "0s"}, app.ExitUsage, nil, "m-8"},
	} {
		t.Run(name, func(t *testing.T) {
			f, c := startCluster(t, fixture()), command{}
			c.wantCode(t, c.run(t, f, tt.args...), tt.code)
			wantIn(t, "stdout", c.out.String(), tt.out...)
			if strings.Contains(c.out.String(), tt.none) {
				t.Errorf("got %q in stdout:\n%s", tt.none, c.out.String())
			}
		})
	}
}

func (f *fakeCluster) ProbePlan(
	_ context.Context, r *holdfastv1.ProbePlanRequest,
) (*holdfastv1.ProbePlanResponse, error) {
	last := &holdfastv1.Probe{Step: "repave-os", Kind: "repave", What: "image", Verdict: holdfastv1.Probe_OK,
		Message: "image: disk on 3 of 3 peers"}
	if r.GetParams()["image"] == "none" {
		last.Verdict, last.Message = holdfastv1.Probe_FAILS, `there is no image "none"`
	}
	return &holdfastv1.ProbePlanResponse{Probes: []*holdfastv1.Probe{{What: "machine", Verdict: holdfastv1.Probe_OK},
		last}}, nil
}

func TestPlanProbe(t *testing.T) {
	f := startCluster(t, fixture())
	c := command{in: "plan_id: p\nsteps: [{name: a, power: {action: \"on\"}}]\n"}
	c.wantCode(t, c.run(t, f, "plan", "validate", "-", "--dry-run", "m-123"), app.ExitOK)
	wantIn(t, "stdout", c.out.String(), "repave-os", "ok", "3 of 3 peers")
	wantIn(t, "stderr", c.err.String(), "nothing was changed")
	c = command{}
	c.wantCode(t, c.run(t, f, "plan", "validate", "--plan", "plan/x", "--dry-run", "m-123", "--param", "image=none"),
		app.ExitConflict)
	wantIn(t, "stdout", c.out.String(), "FAILS", `there is no image "none"`)
	got := asked[*holdfastv1.ProbePlanRequest](f)
	if len(got) != 2 || len(got[0].GetPlan().GetSteps()) != 1 || got[0].GetMachineId() != "m-123" ||
		got[1].GetPlanId() != "plan/x" {
		t.Errorf("got request %v", got)
	}
	for _, args := range [][]string{{"plan", "validate", "--plan", "x"},
		{"plan", "validate", "f", "--plan", "x", "--dry-run", "m"}, {"plan", "validate", "--dry-run", "m"}} {
		c = command{}
		c.wantCode(t, c.run(t, f, args...), app.ExitUsage)
	}
}
