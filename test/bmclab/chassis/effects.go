package chassis

import "time"

// Press is a button or a wire of the chassis.
type Press string

// The presses. Soft asks the operating system (ACPI).
const (
	On    Press = "on"
	Off   Press = "off"
	Soft  Press = "soft"
	Reset Press = "reset"
)

// Boot is the boot override.
type Boot struct {
	Target     string `json:"target"` // none, net, disk, cd
	Persistent bool   `json:"persistent,omitempty"`
	UEFI       bool   `json:"uefi,omitempty"` // kept and shown; the firmware here is SeaBIOS in any case
}

// State is how the machine is now.
type State struct {
	On    bool      `json:"on"`    // there is a QEMU
	Up    bool      `json:"up"`    // what was booted runs
	From  string    `json:"from"`  // what was booted last: net, disk, cd
	Since time.Time `json:"since"` // of the power state
	Boot  Boot      `json:"boot"`
	Media string    `json:"media"` // URL of what is in the virtual drive
}

// Effect is something that a BMC had done, or that happened by itself.
type Effect struct {
	At   time.Time `json:"at"`
	By   string    `json:"by"`   // ipmi, redfish, or machine for what happened by itself
	What string    `json:"what"` // a Press, "boot net", "media", or "down"
	Lost bool      `json:"lost"` // accepted, and nothing happened (Lie)
	Was  bool      `json:"was"`  // it was so already: nothing changed
}

// Presses counts the effects of one kind that were done or would have been, had it not been so
// already. Lies do not count.
func Presses(effects []Effect, what Press) (n int) {
	for _, e := range effects {
		if e.What == string(what) && !e.Lost {
			n++
		}
	}
	return n
}
