package netboot

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/timestamppb"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/providers"
)

// start is the time at which the sessions reached their stage.
var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// site is a machine with its BMC and its session.
type site struct {
	session *holdfastv1.Install
	power   providers.PowerState
	refuses error // the error of the BMC for each request
	facts   providers.Facts
	done    []string
}

func (s *site) Session(string) *holdfastv1.Install { return s.session }

func (s *site) Open(_ context.Context, op providers.Op, spec providers.InstallSpec) error {
	s.session = &holdfastv1.Install{MachineId: "m-1", RunId: op.RunID, Step: op.Step, Attempt: op.Attempt,
		Image: spec.Image, Stage: holdfastv1.Install_WAITING_FOR_PXE,
		Macs: []string{"52:54:00:00:00:01"}, StageSince: timestamppb.New(start), LastSeenAt: timestamppb.New(start)}
	s.done = append(s.done, "open")
	return nil
}

func (s *site) Note(_ context.Context, i *holdfastv1.Install, seen Seen) error {
	switch {
	case seen.DiskBooted:
		i.Stage = holdfastv1.Install_BOOTED_DISK
	case seen.PowerOff:
		i.PowerOffSeen = true
	case seen.PowerOn:
		i.PowerOnSeen = true
	}
	return nil
}

func (s *site) PowerState(context.Context, providers.Machine) (providers.PowerState, error) {
	return s.power, s.refuses
}

func (s *site) SetPower(_ context.Context, _ providers.Op, _ providers.Machine, a providers.PowerAction) error {
	s.done = append(s.done, string(a))
	s.power = map[providers.PowerAction]providers.PowerState{providers.ActionHardOff: providers.PowerOff,
		providers.ActionOn: providers.PowerOn}[a]
	return nil
}

func (s *site) BootDevice(context.Context, providers.Machine) (providers.BootDevice, error) {
	return providers.BootDevice{UEFI: true}, nil
}

func (s *site) SetBootDevice(_ context.Context, _ providers.Op, _ providers.Machine, d providers.BootDevice) error {
	if !d.UEFI {
		return errors.New("machine boots with UEFI")
	}
	s.done = append(s.done, "boot "+d.Mode)
	return nil
}

func (s *site) Inspect(context.Context, providers.Machine) (providers.Facts, error) {
	return s.facts, nil
}

func machine() providers.Machine {
	return &holdfastv1.Machine{MachineId: "m-1", Spec: &holdfastv1.MachineSpec{SshEndpoint: "10.0.0.7:22"}}
}

func op(attempt int32) providers.Op {
	return providers.Op{RunID: "run-1", Step: "repave", Attempt: attempt}
}

// imager returns an imager whose clock is later than start.
func imager(s *site, later time.Duration) *Imager {
	p := New(Config{}, s, s, s)
	p.now = func() time.Time { return start.Add(later) }
	return p
}

// walk makes the due actions until none is left, like the executor.
func walk(t *testing.T, s *site, attempt int32, boot string) providers.InstallStatus {
	t.Helper()
	p := imager(s, time.Second)
	for range 10 {
		st, err := p.InstallStatus(t.Context(), machine(), op(attempt).Token())
		if err != nil {
			t.Fatal(err)
		}
		if st.State != providers.WorkNone && st.Due == "" && (attempt == 1 || s.session.GetPowerOnSeen()) {
			return st
		}
		if st.State != providers.WorkNone && st.Due == "" {
			continue // it has recorded an observation
		}
		if err := p.StartInstall(t.Context(), op(attempt), machine(),
			providers.InstallSpec{Image: "debian", Boot: boot}); err != nil {
			t.Fatal(err)
		}
	}
	t.Fatal("got due actions without end")
	return providers.InstallStatus{}
}

// A first attempt finds the machine as the plan's steps have left it. A retry boots it again
// from each state, and presses nothing twice.
func TestButtons(t *testing.T) {
	for name, tt := range map[string]struct {
		attempt int32
		power   providers.PowerState
		boot    string
		want    []string
	}{
		"first attempt": {1, providers.PowerOn, "", []string{"open"}},
		"retry of a machine on": {2, providers.PowerOn, "", []string{"open", "boot PXE",
			string(providers.ActionHardOff), string(providers.ActionOn)}},
		"retry with HTTP": {2, providers.PowerOn, "HTTP",
			[]string{"open", "boot HTTP", string(providers.ActionHardOff), string(providers.ActionOn)}},
		"retry of a machine off": {2, providers.PowerOff, "", []string{"open", string(providers.ActionOn)}},
	} {
		t.Run(name, func(t *testing.T) {
			s := &site{power: tt.power}
			walk(t, s, tt.attempt, tt.boot)
			walk(t, s, tt.attempt, tt.boot) // another leader
			if diff := cmp.Diff(tt.want, s.done); diff != "" {
				t.Errorf("effects (-want +got):\n%s", diff)
			}
		})
	}
	on := &site{power: providers.PowerUnknown}
	if err := on.Open(t.Context(), op(2), providers.InstallSpec{Image: "debian"}); err != nil {
		t.Fatal(err)
	}
	if st, err := imager(on, time.Second).InstallStatus(t.Context(), machine(), op(2).Token()); err != nil ||
		st.Due != "" || on.session.GetPowerOffSeen() {
		t.Errorf("booting machine: got %+v, %v, off observed: %t, want nothing due and nothing observed", st, err,
			on.session.GetPowerOffSeen())
	}
	s := &site{refuses: errors.New("no route to host")}
	if err := s.Open(t.Context(), op(2), providers.InstallSpec{Image: "debian"}); err != nil {
		t.Fatal(err)
	}
	if st, err := imager(s, time.Second).InstallStatus(t.Context(), machine(), op(2).Token()); err == nil || st.Due != "" {
		t.Errorf("silent BMC: got %+v, %v, want its error and nothing due", st, err)
	}
}

// Each stage has a time limit, and an error with the condition and a hint.
func TestStages(t *testing.T) {
	for name, tt := range map[string]struct {
		stage holdfastv1.Install_Stage
		later time.Duration
		facts providers.Facts
		state providers.WorkState
		want  string // in the stage or the error
	}{
		"waits for its boot script": {holdfastv1.Install_WAITING_FOR_PXE, time.Minute, providers.Facts{},
			providers.WorkRunning, "ask for its boot script"},
		"no request": {holdfastv1.Install_WAITING_FOR_PXE, 16 * time.Minute, providers.Facts{},
			providers.WorkFailed, "52:54:00:00:00:01"},
		"boots": {holdfastv1.Install_BOOTED_IPXE, time.Minute, providers.Facts{}, providers.WorkRunning,
			"the installer to start"},
		"installer never starts": {holdfastv1.Install_BOOTED_IPXE, 6 * time.Minute, providers.Facts{},
			providers.WorkFailed, "its console"},
		"writes": {holdfastv1.Install_WRITING, time.Minute, providers.Facts{}, providers.WorkRunning,
			"at: 40 of 100 MB"},
		"power lost while writing": {holdfastv1.Install_WRITING, 6 * time.Minute, providers.Facts{}, providers.WorkFailed,
			"no report of the installer for 5m0s"},
		"boots its disk": {holdfastv1.Install_COMPLETE, time.Minute,
			providers.Facts{ReachableReason: "HostKeyMismatch"}, providers.WorkRunning, "HostKeyMismatch"},
		"never boots its disk": {holdfastv1.Install_COMPLETE, 16 * time.Minute,
			providers.Facts{ReachableReason: "ConnectionRefused"}, providers.WorkFailed, "the image was written"},
		"up":     {holdfastv1.Install_COMPLETE, time.Minute, providers.Facts{Reachable: true}, providers.WorkDone, ""},
		"failed": {holdfastv1.Install_FAILED, time.Minute, providers.Facts{}, providers.WorkFailed, "two disks match"},
	} {
		t.Run(name, func(t *testing.T) {
			s := &site{power: providers.PowerOn, facts: tt.facts}
			if err := s.Open(t.Context(), op(1), providers.InstallSpec{Image: "debian"}); err != nil {
				t.Fatal(err)
			}
			s.session.Stage, s.session.Detail, s.session.Error = tt.stage, "40 of 100 MB", "two disks match"
			st, err := imager(s, tt.later).InstallStatus(t.Context(), machine(), op(1).Token())
			if err != nil || st.State != tt.state || !strings.Contains(st.Stage+st.Error, tt.want) {
				t.Errorf("got %+v, %v, want %v with %q", st, err, tt.state, tt.want)
			}
			if st.State == providers.WorkDone && s.session.GetStage() != holdfastv1.Install_BOOTED_DISK {
				t.Errorf("stage of the session: got %s, want the observed system recorded", s.session.GetStage())
			}
		})
	}
}

// The session of another attempt is ignored.
func TestForeignSession(t *testing.T) {
	s := &site{}
	if err := s.Open(t.Context(), op(1), providers.InstallSpec{Image: "debian"}); err != nil {
		t.Fatal(err)
	}
	if st, err := imager(s, 0).InstallStatus(t.Context(), machine(), op(2).Token()); err != nil ||
		st.State != providers.WorkNone {
		t.Errorf("got %+v, %v, want none", st, err)
	}
	for _, spec := range []providers.InstallSpec{{}, {Wipe: true}} {
		untouched := &site{}
		if err := imager(untouched, 0).StartInstall(t.Context(), op(1), machine(),
			spec); providers.ClassOf(err) != providers.Unsupported {
			t.Errorf("nothing to install: got %v, want a refusal", err)
		}
		if i := untouched.session; i != nil {
			t.Errorf("%+v: got an open session %v", spec, i)
		}
	}
}
