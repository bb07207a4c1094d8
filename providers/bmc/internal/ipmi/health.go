package ipmi

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/bmc/internal/access"
	"github.com/holdfast-metal/holdfast/providers/internal/text"
)

// Health reads the sensors (SDR) and then the newest entries of the event log (SEL).
func (h *Host) Health(ctx context.Context) (providers.Health, error) {
	if _, err := h.mcInfo(ctx); err != nil { // logs in, as table requires
		return providers.Health{}, err
	}
	out, err := h.table(ctx, "sdr", "elist", "all")
	if err != nil {
		return providers.Health{}, err
	}
	var all providers.Health
	asked := 0
	for line := range strings.Lines(out) {
		s, ok := parseSensor(line)
		if !ok {
			continue
		}
		p, bad := s.problem()
		if !bad {
			continue
		}
		if p.Kind == providers.Thermal && s.analog() && asked < 4 { // find the threshold
			asked++
			if more, err := h.run(ctx, false, "sensor", "get", s.name); err == nil {
				p.Text = s.over(fields(more))
			} else if access.Silent(err) {
				return providers.Health{}, err
			}
		}
		all.Problems = append(all.Problems, p)
	}
	sel, err := h.table(ctx, "sel", "elist", "last", "32")
	switch {
	case err == nil:
		all.Problems = append(all.Problems, logged(sel, time.Now())...)
	case access.Silent(err):
		return providers.Health{}, err
	default:
		all.Unread = append(all.Unread, "the event log: "+text.Clip(err.Error(), 120))
	}
	all.Sort()
	return all, nil
}

// sensor is a line of `ipmitool sdr elist`: name, number, status, entity, and the reading, or the
// states of a discrete sensor.
type sensor struct{ name, status, entity, reading string }

func parseSensor(line string) (sensor, bool) {
	f := strings.Split(line, "|")
	if len(f) != 5 {
		return sensor{}, false
	}
	for i := range f {
		f[i] = strings.TrimSpace(f[i])
	}
	return sensor{f[0], f[2], f[3], f[4]}, f[0] != ""
}

// analog reports whether the sensor has a numeric reading.
func (s sensor) analog() bool {
	_, _, ok := s.measured()
	return ok
}

// measured splits a reading like "94 degrees C". HPE has states after it, separated by commas.
func (s sensor) measured() (value, unit string, ok bool) {
	first, _, _ := strings.Cut(s.reading, ",")
	value, unit, _ = strings.Cut(strings.TrimSpace(first), " ")
	_, err := strconv.ParseFloat(value, 64)
	return value, unit, err == nil
}

// kind returns the kind of part that the sensor belongs to, by its unit or its entity (IPMI 2.0
// table 43-13).
func (s sensor) kind() providers.Kind {
	_, unit, _ := s.measured()
	switch unit {
	case "degrees C", "degrees F", "RPM":
		return providers.Thermal
	case "Volts":
		return providers.VoltageWrong
	case "Watts", "Amps":
		return providers.PowerSupply
	}
	entity, _, _ := strings.Cut(s.entity, ".")
	switch entity {
	case "3":
		return providers.CPUFailed
	case "4", "26":
		return providers.DiskFailed
	case "8", "32":
		return providers.MemoryFailed
	case "10", "19", "20", "21":
		return providers.PowerSupply
	case "29", "30", "39", "55", "64":
		return providers.Thermal
	}
	return providers.HealthUnnamed
}

// problem returns the problem that a sensor shows, if any.
func (s sensor) problem() (providers.Problem, bool) {
	name := text.Clip(s.name, 60)
	if value, unit, ok := s.measured(); ok {
		word := map[string]string{
			"nc": "is out of its range",
			"cr": "is critical",
			"nr": "is beyond repair",
		}[s.status]
		reading := strings.Replace(value+" "+unit, "degrees ", "", 1)
		if word != "" {
			return providers.Problem{Kind: s.kind(), Text: name + " " + word + " at " + reading}, true
		}
	}
	if f := fault(s.reading); f != "" {
		return providers.Problem{Kind: s.kind(), Text: name + " " + f}, true
	}
	return providers.Problem{}, false
}

// over describes a temperature with the threshold that it exceeds, from the fields of `sensor get`.
func (s sensor) over(f map[string]string) string {
	value, unit, _ := s.measured()
	unit = strings.TrimPrefix(unit, "degrees ")
	reading, _ := strconv.ParseFloat(value, 64)
	describe := func(relation string, limit float64) string {
		bound := strconv.FormatFloat(limit, 'f', -1, 64)
		return text.Clip(s.name, 60) + " " + value + " " + unit + relation + bound + " " + unit
	}
	for _, t := range []string{"Upper Non-Recoverable", "Upper Critical", "Upper Non-Critical"} {
		if limit, err := strconv.ParseFloat(f[t], 64); err == nil && reading >= limit {
			return describe(" over ", limit)
		}
	}
	for _, t := range []string{"Lower Non-Recoverable", "Lower Critical", "Lower Non-Critical"} {
		if limit, err := strconv.ParseFloat(f[t], 64); err == nil && reading <= limit {
			return describe(" under ", limit)
		}
	}
	p, _ := s.problem()
	return p.Text
}

// logged returns the faults of the last day that were not deasserted since, from the
// output of `ipmitool sel elist`: id, date, time, sensor, event, direction.
func logged(out string, now time.Time) []providers.Problem {
	type entry struct{ sensor, event string }
	open := map[entry]bool{}
	var order []entry
	for line := range strings.Lines(out) {
		f := strings.Split(line, "|")
		if len(f) < 5 {
			continue
		}
		for i := range f {
			f[i] = strings.TrimSpace(f[i])
		}
		at, direction := parseTime(f[1]+" "+f[2]), ""
		if len(f) > 5 {
			direction = f[5]
		}
		e := entry{f[3], f[4]}
		switch {
		case strings.EqualFold(direction, "Deasserted"):
			delete(open, e)
		case fault(f[4]) != "" && !at.IsZero() && now.Sub(at) < access.LogWindow && at.Sub(now) < time.Hour:
			if !open[e] {
				order = append(order, e)
			}
			open[e] = true
		}
	}
	var ps []providers.Problem
	for i := len(order) - 1; i >= 0 && len(ps) < access.LogReported; i-- {
		if e := order[i]; open[e] {
			delete(open, e)
			text := "the event log says: " + text.Clip(e.sensor+": "+e.event, 120)
			ps = append(ps, providers.Problem{Kind: providers.EventLogged, Text: text})
		}
	}
	return ps
}
