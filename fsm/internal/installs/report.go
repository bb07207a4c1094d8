package installs

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-metal/holdfast/fsm/internal/core"
	"github.com/holdfast-metal/holdfast/fsm/internal/fleet"
	"github.com/holdfast-metal/holdfast/fsm/internal/lex"
	"github.com/holdfast-metal/holdfast/fsm/internal/limits"
	"github.com/holdfast-metal/holdfast/fsm/internal/refusal"
	"github.com/holdfast-metal/holdfast/fsm/internal/sessions"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// A report of an installer advances its session and the node, by the table of the node state
// machine. It may come with a session's token, or through the node API, whose installers know
// MAC addresses only.

// ReportInstall applies a report that came with a token.
func ReportInstall(t *core.Tx, c *internalv1.ReportInstall) (*holdfastv1.Install, *refusal.Error) {
	s, err := editSession(t, c.GetSha256())
	if err != nil {
		return nil, err
	}
	r, i := c.GetReport(), s.GetInstall()
	if bad := checkInstallReport(r); len(bad) > 0 {
		return nil, refusal.Invalid(bad)
	}
	run, ok := t.Runs.Get(i.GetRunId())
	m, there := t.Machines.Edit(i.GetMachineId())
	if !ok || !there {
		return nil, refusal.New(refusal.OutOfRange, sessions.ReasonInstallOver, "run %s of this install not found",
			i.GetRunId())
	}
	if r.GetStatus() == "started" { // it writes once this report is accepted
		if err := fleet.CheckIdentity(t.State, m); err != nil {
			return nil, refusal.New(refusal.OutOfRange, sessions.ReasonInstallOver, "the installer does not begin: %s",
				err.Message)
		}
	}
	s.Bound = c.GetSha256() // a caller with another script of this session cannot report in its name
	if m.Node == nil {
		m.Node = &holdfastv1.NodeRecord{}
	}
	fleet.MergeFacts(m.Node, r.GetFacts())
	m.Node.IpAddress = cmp.Or(r.GetIpAddress(), m.Node.GetIpAddress())
	m.Node.LastSeenAt = t.Now
	storeInstallerHardware(t, run, r.GetInventory())
	i.IpAddress, i.Detail = cmp.Or(r.GetIpAddress(), i.GetIpAddress()), cmp.Or(r.GetDetail(), i.GetDetail())
	if len(r.GetHostKeys()) > 0 {
		i.HostKeys = r.GetHostKeys()
	}
	i.LastSeenAt = t.Now
	t.Installs.Put(s)
	m = installReported(t, m, &holdfastv1.ReportNodeRequest{
		MacAddress:           i.GetMacs()[0],
		InstallationStatus:   r.GetStatus(),
		InstallationError:    r.GetError(),
		InstallationProgress: r.GetProgress(),
		HasProgress:          r.GetHasProgress(),
	}, "")
	fleet.PutMachine(t, m)
	s, _ = t.Installs.Get(i.GetMachineId())
	return s.GetInstall(), nil
}

// checkInstallReport returns the violations of a report.
func checkInstallReport(r *holdfastv1.ReportInstallRequest) []refusal.FieldViolation {
	bad := refusal.Violations{Fields: fleet.CheckNode(r.GetFacts())}
	if s := r.GetStatus(); !slices.Contains([]string{"started", "progress", "complete", "failed"}, s) {
		bad.Add("status", "%.40q is not started, progress, complete or failed", s)
	}
	if p := r.GetProgress(); p < 0 || p > 100 {
		bad.Add("progress", "%d is not 0 to 100", p)
	}
	if !oneLine(r.GetDetail()) {
		bad.Add("stage", "must be one line of at most %d bytes", fleet.MaxNodeText)
	}
	if !oneLine(r.GetIpAddress()) {
		bad.Add("ip_address", "must be one line of at most %d bytes", fleet.MaxNodeText)
	}
	bad.Fields = append(bad.Fields, limits.Violations(bad.Prefix, r)...)
	for n, k := range r.GetHostKeys() {
		if len(k) > 2048 || strings.ContainsAny(k, "\x00\n\r") || len(strings.Fields(k)) < 2 {
			bad.Add(fmt.Sprintf("host_keys[%d]", n), "is not a public key such as ssh-ed25519 AAAA…")
		}
	}
	return bad.Fields
}

func oneLine(s string) bool {
	return len(s) <= fleet.MaxNodeText && !strings.ContainsAny(s, "\x00\n\r")
}

// storeInstallerHardware stores the inventory from an installer, unless a BMC has reported one.
func storeInstallerHardware(t *core.Tx, run *holdfastv1.Run, in *holdfastv1.HardwareInventory) {
	if was, ok := t.Hardware.Get(run.GetMachineId()); in == nil ||
		ok && was.GetHardware().GetSource() == fleet.HardwareFromBMC {
		return
	}
	is := fleet.BoundHardware(in)
	is.Source, is.ObservedAt, is.RunId = "installer", t.Now, run.GetRunId()
	t.Hardware.Put(&internalv1.MachineHardware{MachineId: run.GetMachineId(), Hardware: is})
}

// sessionReported advances the open session of a machine by a report, if there is one. It
// returns whether the report is new: an installer without a response repeats its report, and
// a second failure of one attempt does not count.
func sessionReported(t *core.Tx, m *holdfastv1.Machine, r *holdfastv1.ReportNodeRequest) (isNew bool) {
	s, ok := t.Installs.Edit(m.GetMachineId())
	i := s.GetInstall()
	if !ok || !sessions.InstallBoots(i) { // reports after the end are ignored
		return !ok || !sessions.InstallOpen(i)
	}
	i.LastSeenAt = t.Now
	if r.GetHasProgress() && r.GetInstallationStatus() == "progress" {
		i.Progress = r.GetInstallationProgress()
	}
	switch status := r.GetInstallationStatus(); {
	case status == "failed":
		i.Error, i.CompletedAt = cmp.Or(lex.Clip(r.GetInstallationError(), core.MaxNote),
			"the installer gave no reason"), t.Now
		stage(t, s, holdfastv1.Install_FAILED, "the installer has failed: "+i.GetError())
	case status == "complete":
		i.Progress, i.CompletedAt = 100, t.Now
		sessions.PinHost(t, m, i)
		fleet.ForgetEnrollment(t, m, i.GetCompletedAt())
		stage(t, s, holdfastv1.Install_COMPLETE, "the installer is done")
	case status == "started" && i.GetStage() < holdfastv1.Install_INSTALLER_STARTED:
		if i.GetStartedAt() == nil {
			i.StartedAt = t.Now
		}
		stage(t, s, holdfastv1.Install_INSTALLER_STARTED, "the installer has started")
	case status == "progress" && i.GetStage() < holdfastv1.Install_WRITING:
		if i.GetStartedAt() == nil {
			i.StartedAt = t.Now
		}
		stage(t, s, holdfastv1.Install_WRITING, "the installer is at work")
	default:
		t.Installs.Put(s)
	}
	return true
}
