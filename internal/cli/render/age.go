package render

import (
	"time"

	"github.com/holdfast-metal/holdfast/internal/describe"
)

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
		return "in " + describe.Age(-d)
	case d < time.Second:
		return "just now"
	}
	return describe.Age(d) + " ago"
}

// Until writes a time to come as "in 3m", one that has passed as "3m ago". The zero time is "".
func Until(now, t time.Time) string {
	if t.IsZero() || !t.After(now) {
		return Ago(now, t)
	}
	return "in " + describe.Age(t.Sub(now))
}
