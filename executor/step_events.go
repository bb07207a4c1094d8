package executor

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/providers"
)

// streamEvents is the stream of the run's log that has the entries of an event log.
const streamEvents = "events"

// The evidence of an event log.
const (
	proofEvents = "events"
	proofNewest = "newest"
)

// readEvents reads the event log into the run's log.
func (a *attempt) readEvents(p providers.EventLog) action {
	return action{do: func(ctx context.Context) error {
		all, err := p.Events(ctx, a.machine)
		if err != nil {
			return err
		}
		a.showEvents(all)
		a.message = eventSummary(all)
		return nil
	}}
}

// clearEvents reads the event log into the run's log and, once that is recorded, clears it. A new
// leader finds it cleared when the newest entry of before is not in it any more.
func (a *attempt) clearEvents(p providers.EventLog) action {
	var all []providers.Event
	cleared := func(ctx context.Context) (bool, error) {
		now, err := p.Events(ctx, a.machine)
		if err != nil {
			return false, err
		}
		all = now
		had, _ := strconv.Atoi(a.before[proofEvents])
		gone := !slices.ContainsFunc(now, func(e providers.Event) bool { return eventKey(e) == a.before[proofNewest] })
		// A clock that is not set makes the entry of the clearing look like the one before.
		return had == 0 || gone || len(now) < had || had == 1 && len(now) == 1 && now[0].At.IsZero(), nil
	}
	return action{
		before: func(ctx context.Context) (map[string]string, error) {
			all, err := p.Events(ctx, a.machine)
			if err != nil || len(all) == 0 {
				return map[string]string{proofEvents: "0"}, err
			}
			return map[string]string{proofEvents: strconv.Itoa(len(all)), proofNewest: eventKey(all[len(all)-1])}, nil
		},
		do: func(ctx context.Context) error {
			if a.before[proofEvents] == "0" {
				a.message = "event log was empty already"
				return nil
			}
			if err := a.settle(ctx, cleared); err != nil {
				return err
			}
			done := false
			if a.adopted != nil {
				var err error
				if done, err = cleared(ctx); err != nil {
					return err
				}
			}
			if !done {
				var err error
				if all, err = p.Events(ctx, a.machine); err != nil {
					return err
				}
				a.showEvents(all)
				if err := a.commitLog(ctx); err != nil { // what is lost on the BMC must be kept here
					return err
				}
				if run, _ := a.state.View().Run(a.id); run.GetLogTruncated() {
					return providers.Errorf(providers.Unsupported, "clear the event log", "the log of this run is full (%d bytes), and does not hold the entries that would be cleared: clear it by a run of its own", fsm.MaxRunLog)
				}
				err = a.effect(ctx, fmt.Sprintf("clear the event log of %d entries", len(all)), func(ctx context.Context) error {
					return p.ClearEvents(ctx, a.op, a.machine)
				})
				if err != nil {
					return err
				}
				if err := a.poll(ctx, "the event log to be cleared", cleared); err != nil {
					return err
				}
			}
			a.prove(map[string]string{"events_left": strconv.Itoa(len(all))})
			a.message = "event log cleared, it had " + a.before[proofEvents] + " entries"
			return nil
		},
	}
}

// eventKey returns an entry from the others.
func eventKey(e providers.Event) string {
	return said(fmt.Sprintf("%s %s %.64s", e.ID, e.At.UTC().Format(time.RFC3339), e.Message))
}

// showEvents writes entries into the run's log, a line each. What an earlier leader has written of
// the same is not written again.
func (a *attempt) showEvents(all []providers.Event) {
	var b strings.Builder
	worst := map[string]int{}
	for _, e := range all {
		b.WriteString(eventLine(e))
		worst[strings.ToLower(e.Severity)]++
	}
	text := b.String()
	if old := a.shown(streamEvents); old != "" {
		text = strings.TrimPrefix(text, old)
	}
	if text != "" {
		a.write(streamEvents, []byte(text))
	}
	a.prove(map[string]string{proofEvents: strconv.Itoa(len(all))})
	for _, s := range []string{"warning", "critical"} {
		if n := worst[s]; n > 0 {
			a.prove(map[string]string{s: strconv.Itoa(n)})
		}
	}
	if len(all) > 0 {
		a.prove(map[string]string{proofNewest: eventKey(all[len(all)-1])})
	}
}

// eventLine returns an entry as it stands in the log.
func eventLine(e providers.Event) string {
	at := "-"
	if !e.At.IsZero() {
		at = e.At.UTC().Format(time.RFC3339)
	}
	fields := []string{at, orDash(e.Severity), orDash(e.Sensor), e.Message}
	return strings.Join(strings.Fields(clean(strings.Join(fields, " | "))), " ") + "\n"
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// eventSummary counts the entries by how bad they are.
func eventSummary(all []providers.Event) string {
	n := map[string]int{}
	for _, e := range all {
		n[strings.ToLower(e.Severity)]++
	}
	s := fmt.Sprintf("%d events", len(all))
	for _, k := range []string{"critical", "warning"} {
		if n[k] > 0 {
			s += fmt.Sprintf(", %d %s", n[k], k)
		}
	}
	return s
}

// shown returns what the run's log has of a stream of this attempt already.
func (a *attempt) shown(stream string) string {
	if a.adopted == nil {
		return ""
	}
	var b strings.Builder
	for c := range a.state.View().RunLog(a.id, 0) {
		if c.GetStep() == a.step.GetName() && c.GetAttempt() == a.number && c.GetStream() == stream {
			b.Write(c.GetData())
		}
	}
	return b.String()
}

// commitLog waits until all that was said is recorded.
func (a *attempt) commitLog(ctx context.Context) error {
	appendTo := func(l *internalv1.LogAppend) error {
		if l == nil {
			return nil
		}
		return a.appendLogs(ctx, l)
	}
	err := a.out.last(appendTo, appendTo)
	if err != nil {
		a.broken = err
	}
	return err
}
