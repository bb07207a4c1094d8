package render

import (
	"fmt"
	"time"
)

// Duration writes a duration with its one or two largest units: 4s, 1m02s, 3h05m, 2d4h.
func Duration(d time.Duration) string {
	d = max(d, 0)
	s := int64(d / time.Second)
	switch {
	case s < 60:
		return fmt.Sprintf("%ds", s)
	case s < 3600:
		return fmt.Sprintf("%dm%02ds", s/60, s%60)
	case s < 24*3600:
		return fmt.Sprintf("%dh%02dm", s/3600, s/60%60)
	}
	return fmt.Sprintf("%dd%dh", s/86400, s/3600%24)
}

// Ago writes how long ago a time was, in its largest unit: "3m ago". The zero time is "".
func Ago(now, t time.Time) string {
	if t.IsZero() {
		return ""
	}
	d := now.Sub(t)
	switch {
	case d < 0 && d > -time.Minute:
		return "just now" // clocks differ
	case d < 0:
		return "in " + largest(-d)
	case d < time.Second:
		return "just now"
	}
	return largest(d) + " ago"
}

// Until writes a time to come as "in 3m", one that has passed as "3m ago". The zero time is "".
func Until(now, t time.Time) string {
	if t.IsZero() || !t.After(now) {
		return Ago(now, t)
	}
	return "in " + largest(t.Sub(now))
}

func largest(d time.Duration) string {
	s := int64(d / time.Second)
	switch {
	case s < 60:
		return fmt.Sprintf("%ds", s)
	case s < 3600:
		return fmt.Sprintf("%dm", s/60)
	case s < 48*3600:
		return fmt.Sprintf("%dh", s/3600)
	}
	return fmt.Sprintf("%dd", s/86400)
}
