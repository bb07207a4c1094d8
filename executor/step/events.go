package step

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-metal/holdfast/executor/task"
	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/internal/describe"
	"github.com/holdfast-metal/holdfast/providers"
)

// streamEvents is the stream of the run log with the entries of an event log.
const streamEvents = "events"

// The evidence of an event log.
const (
	evidenceEvents = "events"
	evidenceNewest = "newest"
	evidenceLog    = "log" // its name
)

// eventStep reads or clears an event log.
type eventStep struct{ *Attempt }

// readEvents copies the event log to the run log.
func (a eventStep) readEvents(p providers.EventLog, log string) Action {
	return Action{Do: func(ctx context.Context) error {
		all, err := p.Events(ctx, a.Machine, log)
		if err != nil {
			return err
		}
		a.showEvents(all)
		a.Message = eventSummary(all)
		return nil
	}}
}

// clearEvents copies the event log to the run log and, once that is committed, clears it.
// The event log counts as cleared if its newest entry from before the attempt is gone.
func (a eventStep) clearEvents(p providers.EventLog, log string) Action {
	var all []providers.Event
	cleared := func(ctx context.Context) (bool, error) {
		now, err := p.Events(ctx, a.Machine, log)
		if err != nil {
			return false, err
		}
		all, now = now, providers.Entries(now)
		had, _ := strconv.Atoi(a.Before[evidenceEvents])
		gone := !slices.ContainsFunc(now, func(e providers.Event) bool { return eventKey(e) == a.Before[evidenceNewest] })
		// Without a clock on the BMC, the entry that records the clearing may equal the
		// entry before it.
		return had == 0 || gone || len(now) < had || had == 1 && len(now) == 1 && now[0].At.IsZero(), nil
	}
	return Action{
		Reads: "event log",
		Before: func(ctx context.Context) (map[string]string, error) {
			all, err := p.Events(ctx, a.Machine, log)
			if all = providers.Entries(all); err != nil || len(all) == 0 {
				return map[string]string{evidenceEvents: "0"}, err
			}
			newest := all[len(all)-1]
			seen := map[string]string{evidenceEvents: strconv.Itoa(len(all)), evidenceNewest: eventKey(newest)}
			if newest.Log != "" {
				seen[evidenceLog] = newest.Log
			}
			return seen, nil
		},
		Do: func(ctx context.Context) error {
			if a.Before[evidenceEvents] == "0" {
				a.Message = "event log was already empty"
				return nil
			}
			if err := a.settle(ctx, cleared); err != nil {
				return err
			}
			done := false
			if a.Adopted {
				var err error
				if done, err = cleared(ctx); err != nil {
					return err
				}
			}
			if !done {
				var err error
				if all, err = p.Events(ctx, a.Machine, log); err != nil {
					return err
				}
				a.showEvents(all)
				if err := a.Log.Commit(ctx); err != nil { // entries must be stored before they are deleted on the BMC
					return err
				}
				if run, _ := a.State.View().Run(a.Op.RunID); run.GetLogTruncated() {
					return providers.Errorf(providers.Unsupported, "clear the event log",
						"the log of this run is full (%d bytes), so the entries could not be stored: "+
							"clear the event log in a separate run", fsm.MaxRunLog)
				}
				what := strings.TrimSpace(fmt.Sprintf("clear the event log of %d entries %s",
					len(providers.Entries(all)), a.Before[evidenceLog]))
				err = a.Effect(ctx, what, func(ctx context.Context) error { return p.ClearEvents(ctx, a.Op, a.Machine, log) })
				if err != nil {
					return err
				}
				if err := a.Poll(ctx, effect("event log", "cleared"), cleared); err != nil {
					return err
				}
			}
			a.AddEvidence(map[string]string{"events_left": strconv.Itoa(len(providers.Entries(all)))})
			a.Message = "event log cleared, it had " + a.Before[evidenceEvents] + " entries"
			if name := a.Before[evidenceLog]; name != "" {
				a.Message = "event log " + name + " cleared, it had " + a.Before[evidenceEvents] + " entries"
			}
			return nil
		},
	}
}

// eventKey returns a text that identifies an entry.
func eventKey(e providers.Event) string {
	return task.Value(fmt.Sprintf("%s %s %.64s", e.ID, e.At.UTC().Format(time.RFC3339), e.Message))
}

// showEvents writes entries to the run log, one per line. Lines that an earlier leader
// has written are skipped.
func (a eventStep) showEvents(all []providers.Event) {
	var b strings.Builder
	for _, e := range all {
		b.WriteString(eventLine(e))
	}
	text := b.String()
	if old := a.shown(streamEvents); old != "" {
		text = strings.TrimPrefix(text, old)
	}
	if text != "" {
		a.Log.Write(streamEvents, []byte(text))
	}
	all = providers.Entries(all)
	a.AddEvidence(map[string]string{evidenceEvents: strconv.Itoa(len(all))})
	count := severities(all)
	for _, s := range []string{"warning", "critical"} {
		if n := count[s]; n > 0 {
			a.AddEvidence(map[string]string{s: strconv.Itoa(n)})
		}
	}
	if len(all) > 0 {
		a.AddEvidence(map[string]string{evidenceNewest: eventKey(all[len(all)-1])})
	}
}

// eventLine formats an entry for the run log.
func eventLine(e providers.Event) string {
	at := "-"
	if !e.At.IsZero() {
		at = e.At.UTC().Format(time.RFC3339)
	}
	fields := []string{at, cmp.Or(e.Severity, "-"), cmp.Or(e.Sensor, "-"), e.Message}
	return strings.Join(strings.Fields(task.Clean(strings.Join(fields, " | "))), " ") + "\n"
}

// severities counts entries by severity.
func severities(all []providers.Event) map[string]int {
	n := map[string]int{}
	for _, e := range all {
		n[strings.ToLower(e.Severity)]++
	}
	return n
}

// eventSummary returns the number of entries in total and by severity.
func eventSummary(all []providers.Event) string {
	n := severities(all)
	s := describe.Number(len(providers.Entries(all)), "event")
	for _, k := range []string{"critical", "warning"} {
		if n[k] > 0 {
			s += fmt.Sprintf(", %d %s", n[k], k)
		}
	}
	return s
}

// shown returns the part of a stream of this attempt that is already in the run log.
func (a eventStep) shown(stream string) string {
	if !a.Adopted {
		return ""
	}
	var b strings.Builder
	for c := range a.State.View().RunLog(a.Op.RunID, 0) {
		if c.GetStep() == a.Step.GetName() && c.GetAttempt() == a.Op.Attempt && c.GetStream() == stream {
			b.Write(c.GetData())
		}
	}
	return b.String()
}
