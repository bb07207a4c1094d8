package describe

import (
	"fmt"
	"strings"
	"time"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// butCause separates a wait and its last error in waiting_for.
const butCause = ", but "

// Reading is a wait for the answer to the first reading of a machine, before an attempt begins.
type Reading struct {
	By string // the part that has to answer: BMC
	Of string // the value that is read: power of m-05
}

// WaitingFor returns the reading as the text of a run's waiting_for.
func (r Reading) WaitingFor() string { return "the " + r.By + " to answer (reading " + r.Of + ")" }

// reading returns the reading that a waiting_for describes and the last error. ok is false if it
// describes another wait.
func reading(waitingFor string) (r Reading, cause string, ok bool) {
	text, cause, _ := strings.Cut(waitingFor, butCause)
	by, of, ok := strings.Cut(text, " to answer (reading ")
	return Reading{strings.TrimPrefix(by, "the "), strings.TrimSuffix(of, ")")}, cause, ok
}

// Reads returns a sentence about a run whose machine is being read before an attempt begins, and ""
// for all others: "reading power of m-05: BMC has not answered for 13s (deadline in 7s)".
func Reads(r *holdfastv1.Run, now time.Time) string {
	waits, cause, ok := reading(r.GetWaitingFor())
	if !ok {
		return ""
	}
	long := Duration(now.Sub(r.GetWaitingSince().AsTime()))
	text := fmt.Sprintf("reading %s: %s has not answered for %s", waits.Of, waits.By, long)
	if cause != "" {
		text = fmt.Sprintf("reading %s for %s: %s", waits.Of, long, cause)
	}
	if end := r.GetDeadline(); end != nil {
		if left := end.AsTime().Sub(now); left > 0 {
			return text + " (deadline in " + Duration(left) + ")"
		}
		text += " (deadline has passed)"
	}
	return text
}

// Hangs returns the sentence of Reads in a few words, for a headline: "BMC has not answered for
// 13s".
func Hangs(r *holdfastv1.Run, now time.Time) string {
	waits, cause, ok := reading(r.GetWaitingFor())
	switch {
	case !ok:
		return ""
	case cause != "":
		return Cut(cause, headline)
	}
	return waits.By + " has not answered for " + Duration(now.Sub(r.GetWaitingSince().AsTime()))
}

// headline is the number of characters of a cause in a headline.
const headline = 60

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
