package chassis

import "time"

// Press is a button or a wire of the chassis.
type Press string

// The presses. Soft sends a request to the operating system (ACPI).
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
	UEFI       bool   `json:"uefi,omitempty"` // stored and shown; the firmware here is always SeaBIOS
}

// State is the state of the machine.
type State struct {
	On    bool      `json:"on"`    // QEMU is running
	Up    bool      `json:"up"`    // the booted guest is running
	From  string    `json:"from"`  // the last boot device: net, disk, cd
	Since time.Time `json:"since"` // of the power state
	Boot  Boot      `json:"boot"`
	Media string    `json:"media"` // URL of the image in the virtual drive
}

// Effect is an effect of a BMC, or one that happened by itself.
type Effect struct {
	At   time.Time `json:"at"`
	By   string    `json:"by"`   // ipmi, redfish, or machine if it happened by itself
	What string    `json:"what"` // a Press, "boot net", "media", or "down"
	Lost bool      `json:"lost"` // accepted without an effect (Lie)
	Was  bool      `json:"was"`  // no change: it was already so
}

// Presses returns the number of effects of one kind, including those without a change. Lies
// do not count.
func Presses(effects []Effect, what Press) (n int) {
	for _, e := range effects {
		if e.What == string(what) && !e.Lost {
			n++
		}
	}
	return n
}
