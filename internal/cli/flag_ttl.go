package cli

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// ttl is a duration that accepts days.
type ttl time.Duration

// never is the ttl of a token that does not expire.
const never ttl = -1

// String implements pflag.Value.
func (d *ttl) String() string {
	switch *d {
	case 0:
		return ""
	case never:
		return "never"
	}
	return time.Duration(*d).String()
}

// Type implements pflag.Value.
func (d *ttl) Type() string { return "duration" }

// Set implements pflag.Value.
func (d *ttl) Set(s string) error {
	if s == "never" {
		*d = never
		return nil
	}
	if days, ok := strings.CutSuffix(s, "d"); ok {
		if n, err := strconv.ParseUint(days, 10, 16); err == nil && n > 0 {
			*d = ttl(time.Duration(n) * 24 * time.Hour)
			return nil
		}
	}
	v, err := time.ParseDuration(s)
	if err != nil || v < time.Second {
		return fmt.Errorf("%q is not a time of at least a second, such as 90d or 12h, or never", s)
	}
	*d = ttl(v)
	return nil
}
