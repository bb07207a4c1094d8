package netboot

import (
	"context"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/providers"
)

// ends is a context with a deadline that does not end it: these tests have their own clock.
type ends struct {
	context.Context
	at time.Time
}

func (e ends) Deadline() (time.Time, bool) { return e.at, true }

// If a step has less time for an install than its stages, it ends with the reason of the current
// stage and of the limit.
func TestStagesFitTheStep(t *testing.T) {
	const step = 10 * time.Minute
	for name, tt := range map[string]struct {
		stage holdfastv1.Install_Stage
		since time.Duration // times since the session was opened: start of the stage, and last report of the machine
		later time.Duration
		want  []string // parts of the error; none: it continues
	}{
		"before the end": {holdfastv1.Install_WAITING_FOR_PXE, 0, 9 * time.Minute, nil},
		"never asked": {holdfastv1.Install_WAITING_FOR_PXE, 0, 9*time.Minute + 51*time.Second,
			[]string{"has not booted from the network in 9m51s", "no more than 10m0s", "timeout_seconds"}},
		"late, and never began": {holdfastv1.Install_BOOTED_IPXE, 8 * time.Minute, 9*time.Minute + 51*time.Second,
			[]string{"the installer has not reported in 1m51s", "timeout_seconds"}},
		"its own time": {holdfastv1.Install_BOOTED_IPXE, time.Minute, 7 * time.Minute,
			[]string{"the installer has not reported in 5m0s after"}},
		"at work": {holdfastv1.Install_WRITING, 9*time.Minute + 45*time.Second, 9*time.Minute + 51*time.Second,
			[]string{"was not done in 6s", "at 40 of 100 MB", "timeout_seconds"}},
		"silent": {holdfastv1.Install_WRITING, time.Minute, 7 * time.Minute,
			[]string{"no report of the installer for 5m0s"}},
		"never boots its disk": {holdfastv1.Install_COMPLETE, 5 * time.Minute, 9*time.Minute + 51*time.Second,
			[]string{"has not answered at 10.0.0.7:22 in 4m51s", "timeout_seconds"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := &site{power: providers.PowerOn, facts: providers.Facts{ReachableReason: "ConnectionRefused"}}
			if err := s.Open(t.Context(), op(1), providers.InstallSpec{Image: "debian"}); err != nil {
				t.Fatal(err)
			}
			at := timestamppb.New(start.Add(tt.since))
			s.session.OpenedAt, s.session.Stage, s.session.StageSince, s.session.LastSeenAt,
				s.session.Detail = timestamppb.New(start), tt.stage, at, at, "40 of 100 MB"
			st, err := imager(s, tt.later).InstallStatus(ends{t.Context(), start.Add(step)}, machine(), op(1).Token())
			if err != nil || (st.State == providers.WorkFailed) != (len(tt.want) > 0) {
				t.Fatalf("got %+v, %v, want failed: %v", st, err, len(tt.want) > 0)
			}
			for _, want := range tt.want {
				if !strings.Contains(st.Error, want) {
					t.Errorf("got %q, want %q in it", st.Error, want)
				}
			}
		})
	}
}
