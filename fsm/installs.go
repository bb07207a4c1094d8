package fsm

import (
	"github.com/holdfast-metal/holdfast/fsm/internal/installs"
)

// InstallTimeout is the failure reason of a run whose installer was silent for too long or
// has not finished in time.
const InstallTimeout = installs.InstallTimeout
