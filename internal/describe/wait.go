package describe

import (
	"cmp"
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Wait returns the sentence of a wait, to follow "waiting for": "the BMC to answer, but it refused
// the connection". It returns "" for none. No other package words a wait.
func Wait(w *holdfastv1.Wait) string {
	if w == nil {
		return ""
	}
	text := event(w)
	if w.GetDetail() != "" {
		text += " (" + w.GetDetail() + ")"
	}
	if w.GetPress() != "" {
		text += " (BMC accepted " + w.GetPress() + ")"
	}
	switch {
	case w.GetCause() == "":
		return text
	case w.GetKind() == holdfastv1.Wait_BRAKE:
		return text + ": " + w.GetCause()
	}
	return text + ", but " + w.GetCause()
}

// event returns the event that a wait is for, without its cause.
func event(w *holdfastv1.Wait) string {
	subject, value := w.GetSubject(), w.GetValue()
	switch w.GetKind() {
	case holdfastv1.Wait_QUEUE:
		return "a free slot"
	case holdfastv1.Wait_TURNSTILE:
		return "step " + subject + " to begin"
	case holdfastv1.Wait_BRAKE:
		return "the release of plan " + subject + inPool(w)
	case holdfastv1.Wait_RAMP:
		return alike(w) + fmt.Sprintf(" to end: %d are running, and more may begin as runs succeed", w.GetNumber())
	case holdfastv1.Wait_PLAN_LIMIT:
		return alike(w) + fmt.Sprintf(" to end: %d are running, the limit that an operator has set", w.GetNumber())
	case holdfastv1.Wait_WAVE:
		return "its turn in wave " + subject
	case holdfastv1.Wait_RETRY:
		return fmt.Sprintf("retry %d of step %s", w.GetNumber(), subject)
	case holdfastv1.Wait_STAGGER:
		return "its turn to be powered on (power_on_interval of provider " + subject + ")"
	case holdfastv1.Wait_READING:
		return "the " + subject + " to answer (reading " + value + ")"
	case holdfastv1.Wait_STEP:
		return "the " + subject + " step"
	case holdfastv1.Wait_ANSWER:
		if value != "" {
			return "the " + subject + " to report the " + value
		}
		return "the " + subject + " to answer"
	case holdfastv1.Wait_EFFECT:
		return "the " + subject + " to be " + value
	case holdfastv1.Wait_BOOT:
		if value != "" {
			return "the " + subject + " to boot from the " + value
		}
		return "the " + subject + " to boot"
	case holdfastv1.Wait_COMMAND:
		return "the command to exit"
	case holdfastv1.Wait_INSTALLER:
		return installer(w)
	case holdfastv1.Wait_TIMER:
		return "the end of the " + subject + "'s time"
	case holdfastv1.Wait_STOP:
		return "the current attempt to stop"
	case holdfastv1.Wait_PERSON:
		return person(w)
	}
	// The kind is of a later version.
	return cmp.Or(w.GetSentence(), subject, "an event of kind "+w.GetKind().String())
}

// alike names the runs that a wait counts: "a run of plan plan/x with image a in pool b".
func alike(w *holdfastv1.Wait) string {
	text := "a run of plan " + w.GetSubject()
	if w.GetValue() != "" {
		text += " with image " + w.GetValue()
	}
	return text + inPool(w)
}

func inPool(w *holdfastv1.Wait) string {
	if w.GetPool() == "" {
		return ""
	}
	return " in pool " + w.GetPool()
}

// installer returns the event that ends a stage of an install.
func installer(w *holdfastv1.Wait) string {
	switch w.GetValue() {
	case "reports":
		return "the installer's reports"
	case "retry":
		return "the installer to try again: " + Number(w.GetNumber(), "attempt") + " failed"
	case "waiting-for-pxe":
		return "the machine to ask for its boot script"
	case "virtual-medium":
		return "the installer to start from the virtual medium"
	case "booted-ipxe":
		return "the installer to start"
	case "installer-started":
		return "the installer to write the image"
	case "writing":
		return "the image to be written"
	case "complete":
		return "the machine to boot from its disk"
	}
	return "the install to finish" // the installed system was seen, or the install has failed
}

// person returns the action of a person that ends a wait.
func person(w *holdfastv1.Wait) string {
	switch w.GetValue() {
	case "attach":
		return "a client to attach to the console"
	case "leave":
		return "all clients to leave the console"
	case "approve":
		return "an operator to approve it"
	}
	return "an " + w.GetSubject()
}

// Deadline returns when the wait of a run fails: its own deadline, or that of the attempt.
func Deadline(r *holdfastv1.Run) *timestamppb.Timestamp {
	if own := r.GetWait().GetDeadline(); own != nil {
		return own
	}
	return r.GetDeadline()
}

// lasts returns how long a run has waited.
func lasts(r *holdfastv1.Run, now time.Time) time.Duration {
	return now.Sub(r.GetWait().GetSince().AsTime())
}

// isReading reports whether the machine of a run is being read before an attempt begins.
func isReading(r *holdfastv1.Run) bool { return r.GetWait().GetKind() == holdfastv1.Wait_READING }

// Reads returns a sentence about a run whose machine is being read before an attempt begins, and ""
// for all others: "reading power of m-05: BMC has not answered for 13s (deadline in 7s)".
func Reads(r *holdfastv1.Run, now time.Time) string {
	if !isReading(r) {
		return ""
	}
	w, long := r.GetWait(), Duration(lasts(r, now))
	text := fmt.Sprintf("reading %s: %s has not answered for %s", w.GetValue(), w.GetSubject(), long)
	if w.GetCause() != "" {
		text = fmt.Sprintf("reading %s for %s: %s", w.GetValue(), long, w.GetCause())
	}
	if end := Deadline(r); end != nil {
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
	switch w := r.GetWait(); {
	case !isReading(r):
		return ""
	case w.GetCause() != "":
		return Cut(w.GetCause(), headline)
	default:
		return w.GetSubject() + " has not answered for " + Duration(lasts(r, now))
	}
}

// headline is the number of characters of a cause in a headline.
const headline = 60

// ignored is the time after which a BMC that accepted a press and shows no effect is suspect.
const ignored = 15 * time.Second

// Ignores returns a sentence about a run whose BMC accepted a press long ago without an effect, and
// "" for all others: "BMC accepted 'hard-off' 45s ago and still reports on".
func Ignores(r *holdfastv1.Run, now time.Time) string {
	w, long := r.GetWait(), lasts(r, now)
	if w.GetPress() == "" || w.GetCause() != "" || long < ignored {
		return ""
	}
	reports := "off"
	if w.GetValue() == "off" {
		reports = "on"
	}
	return fmt.Sprintf("BMC accepted '%s' %s ago and still reports %s", w.GetPress(), Duration(long), reports)
}
