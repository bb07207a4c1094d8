package describe

import (
	"fmt"
	"strings"
	"time"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// ignored is the time after which a BMC that accepted a press and shows no effect is suspect.
const ignored = 15 * time.Second

// Accepted returns the waiting_for of a run whose BMC has accepted a press.
func Accepted(waitingFor, press string) string { return waitingFor + " (BMC accepted " + press + ")" }

// Ignores returns a sentence about a run whose BMC accepted a press long ago without an effect, and
// "" for all others: "BMC accepted 'hard-off' 45s ago and still reports on".
func Ignores(r *holdfastv1.Run, now time.Time) string {
	text, _, failing := strings.Cut(r.GetWaitingFor(), butCause)
	wait, press, ok := strings.Cut(text, " (BMC accepted ")
	long := now.Sub(r.GetWaitingSince().AsTime())
	if !ok || failing || long < ignored {
		return ""
	}
	reports := "off"
	if strings.HasSuffix(wait, " off") {
		reports = "on"
	}
	return fmt.Sprintf("BMC accepted '%s' %s ago and still reports %s",
		strings.TrimSuffix(press, ")"), Duration(long), reports)
}
