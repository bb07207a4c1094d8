package fsm

import (
	"time"

	"github.com/holdfast-metal/holdfast/fsm/internal/installs"
	"github.com/holdfast-metal/holdfast/fsm/internal/sessions"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// InstallTimeout is the failure reason of a run whose installer was silent for too long or
// has not finished in time.
const InstallTimeout = installs.InstallTimeout

// The reasons for refusing an installer's calls.
const (
	ReasonInstallToken = sessions.ReasonInstallToken // the token is unknown
	ReasonInstallOver  = sessions.ReasonInstallOver  // its session has ended
	ReasonNoInstall    = sessions.ReasonNoInstall    // no session of the machine waits for a boot
	ReasonInstallTaken = sessions.ReasonInstallTaken // an installer with another token reports in its session
)

// InstallOpen reports whether a session and its attempt have not ended.
func InstallOpen(i *holdfastv1.Install) bool { return sessions.InstallOpen(i) }

// InstallBoots reports whether a machine that requests its boot script boots the installer.
func InstallBoots(i *holdfastv1.Install) bool { return sessions.InstallBoots(i) }

// InstallerSilence is the time without a report after which a boot script is served to the
// machine again. The installer reports every 5 s. A machine that restarts during an install
// retries until then.
const InstallerSilence = sessions.InstallerSilence

// InstallerRuns reports whether the installer of a session has started and reported within
// InstallerSilence. While it runs no other token is issued: a caller that knows the MAC
// address could end the install or report in its name.
func InstallerRuns(i *holdfastv1.Install, now time.Time) bool { return sessions.InstallerRuns(i, now) }
