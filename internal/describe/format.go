package describe

import (
	"fmt"
	"time"
)

// Age formats a duration in its largest unit: 4s, 3m, 47h, 2d.
func Age(d time.Duration) string {
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

// Duration formats a duration in its one or two largest units: 4s, 1m02s, 3h05m, 2d4h.
func Duration(d time.Duration) string {
	s := int64(max(d, 0) / time.Second)
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

// Count formats a number with separated thousands.
func Count(n int) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + " " + s[i:]
	}
	return s
}

// Number returns a number of things: "1 run", "1204 runs".
func Number[N ~int | ~int32 | ~int64 | ~uint32 | ~uint64](n N, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprint(n) + " " + one + "s"
}

// Machines returns a number of machines: "1 machine", "1 204 machines".
func Machines(n int32) string {
	if n == 1 {
		return "1 machine"
	}
	return count(n) + " machines"
}

// Cut shortens a text to a number of characters.
func Cut(text string, most int) string {
	if r := []rune(text); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return text
}
