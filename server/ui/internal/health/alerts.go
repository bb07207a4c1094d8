package health

import (
	"fmt"
	"strings"
	"time"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Facts are what alerts are computed from.
type Facts struct {
	Now      time.Time
	Status   *holdfastv1.ClusterStatus
	Urgent   int // machines with an urgent issue
	Plans    []*holdfastv1.Plan
	Active   []*holdfastv1.Run // pending or running, possibly not all
	Recent   []*holdfastv1.Run // the newest ones
	Webhooks []*holdfastv1.Webhook
	// WebhooksHidden is set if the user may not see webhooks.
	WebhooksHidden bool
}

// Alert is a rule and its state.
type Alert struct {
	Name     string // as in deploy/monitoring/alerts.yml, or of the dashboard alone
	Severity string // critical, warning, info
	Rule     string // when it fires, in words
	Firing   []string
	Hidden   bool   // the user may not see its data
	Remedy   string // the next command
}

// The limits of the rules, as in deploy/monitoring/alerts.yml.
const (
	mostBehind  = 5000
	backupAge   = 36 * time.Hour
	longWait    = 10 * time.Minute
	recentRuns  = 30 * time.Minute
	manyFailed  = 5
	aheadOfPeer = time.Minute
)

// Alerts returns the state of all rules that a peer can evaluate. Unlike Prometheus it does not
// wait until a rule has held for some time.
func Alerts(f Facts) []Alert {
	return []Alert{
		{"HoldfastNoLeader", "critical", "no leader is known", f.noLeader(), false, "holdfast cluster status"},
		{"HoldfastNoneMayFail", "critical", "no further peer may fail", f.noneMayFail(), false, "holdfast cluster status"},
		{"HoldfastDiskAlmostFull", "critical", "a peer reports a problem of its disk", f.disk(), false,
			"holdfast cluster status -o wide"},
		{"HoldfastPeerDown", "warning", "a peer does not answer", f.peersDown(), false, "holdfast cluster status"},
		{"HoldfastPeerLags", "warning", "a peer has not applied 5\u00a0000 committed entries", f.lags(),
			false, "holdfast cluster status -o wide"},
		{"HoldfastDirectoryOld", "warning", "a peer does not vote, because its data directory is old or a copy",
			f.oldDirectories(), false, "holdfast cluster status -o wide"},
		{"HoldfastVersionsMixed", "warning", "peers run different releases", f.versions(), false,
			"holdfast operator upgrade check"},
		{"HoldfastBackupOld", "warning", "the newest backup is older than 36 hours", f.backupOld(), false,
			"holdfast operator snapshot save FILE"},
		{"HoldfastBackupMissing", "warning", "no backup was ever saved", f.backupMissing(), false,
			"holdfast operator snapshot save FILE"},
		{"HoldfastPlanHeld", "warning", "a plan is held by its brake", f.held(), false, "holdfast plan release PLAN"},
		{"HoldfastRunsOverdue", "warning", "a run is pending or running for too long", f.overdue(), false,
			"holdfast machine why MACHINE"},
		{"HoldfastRunsFail", "warning", "of the runs that ended within 30 minutes, 5 or more and over a fifth failed",
			f.failing(), false, "holdfast run list --filter 'phase = FAILED'"},
		{"HoldfastWebhookFails", "warning", "a webhook has failed and has events waiting", f.webhooks(), f.WebhooksHidden,
			"holdfast webhook get WEBHOOK"},
		{"HoldfastMachinesNeedIntervention", "info", "a machine has an urgent issue", f.urgent(), false,
			"holdfast machine issues"},
		{"HoldfastClockWrong", "warning", "the clock of a peer differs from the others by more than a minute", f.clocks(),
			false, "holdfast cluster status -o wide"},
		{"ClockAhead", "warning", "the recorded time is over a minute ahead of this peer's clock", f.clock(), false,
			"holdfast operator clock show"},
	}
}

// OnlyInPrometheus returns the rules of deploy/monitoring/alerts.yml that need measurements over
// time, or of each process, and which only Prometheus evaluates.
func OnlyInPrometheus() []string {
	return []string{
		"HoldfastLeaderChanges", "HoldfastCommitsSlow", "HoldfastQueueFull", "HoldfastCertificateEnds",
		"HoldfastCertificateNotRenewed", "HoldfastCertificateFilesBroken", "HoldfastCredentialsRefused",
		"HoldfastFewFilesLeft", "HoldfastBMCsSilent",
		"HoldfastBMCLoginsRefused", "HoldfastPollsLate", "HoldfastAgentsGone", "HoldfastImageFilesMissing",
		"HoldfastImageFilesDamaged", "HoldfastArchiveFails",
	}
}

// diskFull is in the last words of a peer that has ended because it cannot write.
const diskFull = "disk is full"

func when(fires bool, format string, args ...any) []string {
	if !fires {
		return nil
	}
	return []string{fmt.Sprintf(format, args...)}
}

func (f Facts) noLeader() []string {
	why := strings.TrimPrefix(f.Status.GetProblem(), "no leader: ")
	if why == "" {
		why = "writes wait"
	}
	return when(f.Status.GetLeader() == "", "%s", why)
}

func (f Facts) noneMayFail() []string {
	voters := 0
	for _, p := range f.Status.GetPeers() {
		if p.GetSuffrage() == "voter" {
			voters++
		}
	}
	return when(voters > 2 && f.Status.GetFailureTolerance() == 0,
		"peers alive: %s. Do not stop another one", PeersOf(f.Status))
}

// each returns a line for each peer of the configuration for which why is not empty.
func (f Facts) each(why func(*holdfastv1.Peer) string) (all []string) {
	for _, p := range f.Status.GetPeers() {
		if text := why(p); text != "" && p.GetSuffrage() != "none" {
			all = append(all, p.GetId()+": "+text)
		}
	}
	return all
}

func (f Facts) peersDown() []string {
	return f.each(func(p *holdfastv1.Peer) string {
		if !p.GetAlive() && p.GetError() == "" && p.GetId() != f.Status.GetAnsweredBy() {
			return "does not answer"
		}
		return p.GetError()
	})
}

func (f Facts) disk() []string {
	return f.each(func(p *holdfastv1.Peer) string {
		if strings.Contains(p.GetError(), diskFull) { // it has ended since, so it warns no more
			return p.GetError()
		}
		return warningsOf(p).disk
	})
}

func (f Facts) clocks() []string {
	return f.each(func(p *holdfastv1.Peer) string { return warningsOf(p).clock })
}

func (f Facts) oldDirectories() []string {
	return f.each(func(p *holdfastv1.Peer) string { return warningsOf(p).directory })
}

// warnings are the parts of a peer's warning.
type warnings struct{ disk, directory, clock string }

func warningsOf(p *holdfastv1.Peer) (w warnings) {
	rest, clock, _ := strings.Cut(p.GetWarning(), "clock: ")
	const old = "its data directory is "
	disk, directory, is := strings.Cut(rest, old)
	if is {
		w.directory = old + strings.TrimSuffix(directory, "; ")
	}
	w.disk, w.clock = strings.TrimSuffix(disk, "; "), clock
	return w
}

func (f Facts) lags() []string {
	return f.each(func(p *holdfastv1.Peer) string {
		if p.GetBehind() <= mostBehind {
			return ""
		}
		return fmt.Sprintf("%d entries behind", p.GetBehind())
	})
}

func (f Facts) versions() []string {
	of := map[string][]string{}
	var order []string
	for _, p := range f.Status.GetPeers() {
		v := p.GetVersion()
		if v == "" || p.GetSuffrage() == "none" {
			continue
		}
		if of[v] == nil {
			order = append(order, v)
		}
		of[v] = append(of[v], p.GetId())
	}
	if len(order) < 2 {
		return nil
	}
	var all []string
	for _, v := range order {
		all = append(all, v+": "+strings.Join(of[v], ", "))
	}
	return all
}

func (f Facts) backupOld() []string {
	at := f.Status.GetLastBackupAt()
	if at == nil {
		return nil
	}
	age := f.Now.Sub(at.AsTime())
	return when(age > backupAge, "the newest one is %d hours old", int(age.Hours()))
}

func (f Facts) backupMissing() []string {
	return when(f.Status.GetLastBackupAt() == nil, "no snapshot of this cluster was saved")
}
