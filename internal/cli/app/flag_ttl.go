package app

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// TTL is a duration that accepts days.
type TTL time.Duration

// Never is the ttl of a token that does not expire.
const Never TTL = -1

// String implements pflag.Value.
func (d *TTL) String() string {
	switch *d {
	case 0:
		return ""
	case Never:
		return "never"
	}
	return time.Duration(*d).String()
}

// Type implements pflag.Value.
func (d *TTL) Type() string { return "duration" }

// Set implements pflag.Value.
func (d *TTL) Set(s string) error {
	if s == "never" {
		*d = Never
		return nil
	}
	if days, ok := strings.CutSuffix(s, "d"); ok {
		if n, err := strconv.ParseUint(days, 10, 16); err == nil && n > 0 {
			*d = TTL(time.Duration(n) * 24 * time.Hour)
			return nil
		}
	}
	v, err := time.ParseDuration(s)
	if err != nil || v < time.Second {
		return fmt.Errorf("%q is not a time of at least a second, such as 90d or 12h, or never", s)
	}
	*d = TTL(v)
	return nil
}
