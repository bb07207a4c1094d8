package display

import (
	"cmp"
	"fmt"
	"html/template"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/internal/describe"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Functions returns the functions for templates.
func Functions(asset func(string) string) template.FuncMap {
	return template.FuncMap{
		"asset":    asset,
		"stamp":    stamp,
		"span":     span,
		"elapsed":  func(from *timestamppb.Timestamp) *stretch { return span(from, nil) },
		"enum":     describe.Enum,
		"lower":    strings.ToLower,
		"scope":    scope,
		"label":    Label,
		"waits":    func(m *holdfastv1.WaveMachine) string { return describe.WaveMachineWaits(m, time.Now()) },
		"attempts": describe.Attempts,

		"disksErased": describe.DisksErased,
		"done":        describe.Done,
		"reads":       reads,
		"waiting":     describe.Wait,
		"deadline":    describe.Deadline,
		"why":         why,
		"refer":       refer,
		"count":       describe.Count,
		"paramType":   describe.ParamType,
		"first":       cmp.Or[string],
		"condition":   conditionText,
		"meaning":     describe.ConditionMeaning,
		"attention":   attention,
		"shownAs":     describe.ShownAs,
		"poolStatus":  poolStatus,
		"dict":        dict,
		"retry":       retryLink,
		"used":        usedVRAM,
		"amount":      amount,
		"ended":       Ended,
		"join":        strings.Join,
		"bytes":       Bytes,
		"prose":       prose,
		"pieces":      pieces,
		"words":       words,
	}
}

// dict builds a map, to pass several values to a template.
func dict(pairs ...any) (map[string]any, error) {
	m := map[string]any{}
	for i := 0; i+1 < len(pairs); i += 2 {
		key, ok := pairs[i].(string)
		if !ok {
			return nil, fmt.Errorf("name a value: %v is not text", pairs[i])
		}
		m[key] = pairs[i+1]
	}
	return m, nil
}

// moment is a time in a page: relative, which the browser keeps up to date, and absolute.
type moment struct{ ISO, Full, Text string }

// stamp formats a time. It returns nil for nil.
func stamp(t *timestamppb.Timestamp) *moment {
	if t == nil {
		return nil
	}
	at := t.AsTime()
	return &moment{at.Format(time.RFC3339Nano), at.Format("2006-01-02 15:04:05 MST"), relative(time.Since(at))}
}

// relative formats the time since an event, or until it, as the command line does.
func relative(d time.Duration) string {
	switch {
	case d > -time.Second && d < time.Second:
		return "now"
	case d < 0:
		return "in " + describe.Age(-d)
	}
	return describe.Age(d) + " ago"
}

// stretch is a duration, completed or still running.
type stretch struct {
	Text, Since string // Since is set while it is running
}

// span returns the stretch between two times, or nil if it has not begun.
func span(from, to *timestamppb.Timestamp) *stretch {
	if from == nil {
		return nil
	}
	if to != nil {
		return &stretch{Text: duration(to.AsTime().Sub(from.AsTime()))}
	}
	return &stretch{Text: duration(time.Since(from.AsTime())), Since: from.AsTime().Format(time.RFC3339Nano)}
}

// duration formats a duration with its one or two largest units, or tenths of a second or
// milliseconds if it is short.
func duration(d time.Duration) string {
	switch d = max(d, 0); {
	case d < 100*time.Millisecond:
		return fmt.Sprintf("%dms", d.Milliseconds())
	case d < 10*time.Second:
		return fmt.Sprintf("%.1fs", d.Seconds())
	}
	return describe.Duration(d)
}

// Label returns the readable name of a value, such as "in service".
func Label(v fmt.Stringer) string {
	if name := describe.Enum(v); name != "RMA" {
		return strings.ToLower(strings.ReplaceAll(name, "_", " "))
	}
	return "RMA"
}

// Bytes formats a number of bytes.
func Bytes(n int64) string {
	switch {
	case n >= 1<<40:
		return fmt.Sprintf("%.1f TiB", float64(n)/(1<<40))
	case n >= 1<<30:
		return fmt.Sprintf("%.0f GiB", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%.0f MiB", float64(n)/(1<<20))
	case n >= 1<<10:
		return fmt.Sprintf("%.0f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%d B", n)
}

// conditionText returns the status of a condition: true, false or unknown.
func conditionText(c *holdfastv1.Condition) string {
	switch {
	case c.GetUnknown():
		return "unknown"
	case c.GetStatus():
		return "true"
	}
	return "false"
}

// attention returns why a machine needs attention, is off or differs from its phase.
func attention(m *holdfastv1.Machine) string { return describe.Attention(m, time.Now()) }

func poolStatus(p *holdfastv1.Pool) string { return cmp.Or(Label(p.GetStatus()), "declared") }

// usedVRAM returns the used memory of a GPU in gigabytes, or nil if it is unknown or there is none.
func usedVRAM(g *holdfastv1.Gpu) *float64 {
	if g.AvailableVramGb == nil || g.GetTotalVramGb() <= 0 {
		return nil
	}
	used := max(g.GetTotalVramGb()-g.GetAvailableVramGb(), 0)
	return &used
}

// amount formats a number; "-" if it is unknown.
func amount(v *float64) string {
	if v == nil {
		return "-"
	}
	return strconv.FormatFloat(*v, 'g', -1, 64)
}

// Rate formats a rate.
func Rate(v float64) string {
	switch {
	case v == 0:
		return "0"
	case v < 10:
		return strings.TrimSuffix(fmt.Sprintf("%.1f", v), ".0")
	}
	return describe.Count(int(v + .5))
}

// InTime formats a short duration. 0 is "-".
func InTime(d time.Duration) string {
	ms := float64(d) / float64(time.Millisecond)
	switch {
	case d == 0:
		return "-"
	case ms < 10:
		return strings.TrimSuffix(fmt.Sprintf("%.1f", ms), ".0") + " ms"
	case ms < 1000:
		return fmt.Sprintf("%.0f ms", ms)
	}
	return strings.TrimSuffix(fmt.Sprintf("%.1f", ms/1000), ".0") + " s"
}

// scope describes the role and pools of a user, for the page header.
func scope(id *holdfastv1.Identity) string {
	role := strings.ReplaceAll(strings.ToLower(id.GetRole().String()), "_", "-")
	if id.GetRole() == holdfastv1.Role_ROLE_UNSPECIFIED {
		role = "no role"
	}
	if len(id.GetPools()) == 0 {
		return role
	}
	return role + " of " + strings.Join(id.GetPools(), ", ")
}

// Ended reports whether a run has ended.
func Ended(r *holdfastv1.Run) bool { return r.GetPhase() >= holdfastv1.Run_SUCCEEDED }

// reads returns the progress of a hardware access that takes long, or "".
func reads(r *holdfastv1.Run) string {
	now := time.Now()
	return cmp.Or(describe.Reads(r, now), describe.Ignores(r, now))
}

// why returns a short reason why a run is waiting or did not succeed, as in `run list -o
// wide`.
func why(r *holdfastv1.Run) string {
	if text := reads(r); text != "" {
		return text
	}
	text, _ := describe.Why(r)
	return text
}
