package plans

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-metal/holdfast/fsm/internal/lex"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

const (
	isTrue        = "true" // the text of a BOOL
	maxValueShown = 64     // bytes of a value in an error
	maxNameValue  = 128    // bytes of a NAME without a bound of its own
)

// Values are the parameters of a run in the form of their types. A parameter that is not set has
// the zero value.
type Values map[string]any

// Bool returns a BOOL.
func (v Values) Bool(name string) bool {
	b, _ := v[name].(bool)
	return b
}

// Integer returns an INTEGER.
func (v Values) Integer(name string) int64 {
	n, _ := v[name].(int64)
	return n
}

// Duration returns a DURATION.
func (v Values) Duration(name string) time.Duration {
	d, _ := v[name].(time.Duration)
	return d
}

// Text returns a parameter of any other type.
func (v Values) Text(name string) string {
	s, _ := v[name].(string)
	return s
}

// CheckValue returns why a declaration does not allow a value, or "" if it does.
func CheckValue(p *holdfastv1.Param, value string) string {
	_, why := parseValue(p, false, value)
	return why
}

// parseValue returns the value of a parameter in the form of its type, or why it does not fit. The
// reason is worded to follow the parameter's name.
func parseValue(p *holdfastv1.Param, orURL bool, value string) (any, string) {
	shown := strconv.Quote(lex.Clip(value, maxValueShown))
	if value == "" {
		return nil, "is empty: give a value, or leave the parameter out"
	}
	switch p.GetType() {
	case holdfastv1.Param_BOOL:
		if value != isTrue && value != "false" {
			return nil, shown + " is not true or false"
		}
		return value == isTrue, ""
	case holdfastv1.Param_INTEGER:
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil || strconv.FormatInt(n, 10) != value || !within(p, n) {
			return nil, shown + " is not a whole number" + bounds(p, func(n int32) string { return strconv.Itoa(int(n)) })
		}
		return n, ""
	case holdfastv1.Param_DURATION:
		return parseDuration(p, value, shown)
	case holdfastv1.Param_ENUM:
		if !slices.Contains(p.GetChoices(), value) {
			return nil, shown + " is not one of " + strings.Join(p.GetChoices(), ", ")
		}
	case holdfastv1.Param_NAME:
		return value, checkName(p, orURL, value, shown)
	case holdfastv1.Param_URL:
		if err := CheckMediaURL(value); err != nil {
			return nil, err.Error()
		}
	case holdfastv1.Param_ADDRESS:
		if !isAddress(value) {
			return nil, shown + " is not an address: want host or host:port"
		}
	default:
		return value, checkText(p, value)
	}
	return value, ""
}

func parseDuration(p *holdfastv1.Param, value, shown string) (any, string) {
	d, err := time.ParseDuration(value)
	if err != nil || d < 0 || d%time.Second != 0 || !within(p, int64(d/time.Second)) {
		return nil, shown + " is not a duration" + bounds(p, func(n int32) string {
			return (time.Duration(n) * time.Second).String()
		}) + ", such as 90s or 5m"
	}
	return d, ""
}

// checkName returns why a text is not a NAME.
func checkName(p *holdfastv1.Param, orURL bool, value, shown string) string {
	limit := int32(maxNameValue)
	if p.Max != nil {
		limit = p.GetMax()
	}
	switch ok := lex.ValidPath(value, int(limit)); {
	case ok && int64(len(value)) >= int64(p.GetMin()):
		return ""
	case orURL && strings.Contains(value, "://") && CheckMediaURL(value) == nil:
		return ""
	}
	return fmt.Sprintf("%s is not a name of %d to %d letters, digits, '.', '_', '-', ':' or '/'", shown,
		max(p.GetMin(), 1), limit)
}

// checkText returns why a text does not fit. It does not show it: it may be long, or a secret.
func checkText(p *holdfastv1.Param, value string) string {
	if !within(p, int64(len(value))) {
		return fmt.Sprintf("has %s, and must have%s", lex.Number(len(value), "byte"),
			bounds(p, func(n int32) string { return strconv.Itoa(int(n)) }))
	}
	for _, r := range value {
		switch {
		case r == '\n' && !p.GetMultiline():
			return "has several lines, and must have one"
		case r == '\n', r == '\t', r == '\r' && p.GetMultiline():
		case r < ' ', r == 0x7f, r >= 0x202a && r <= 0x202e, r >= 0x2066 && r <= 0x2069: // the last turn text round
			return fmt.Sprintf("has the control character %U", r)
		}
	}
	if strings.TrimSpace(value) == "" {
		return "is blank: give a value, or leave the parameter out"
	}
	return ""
}

// isAddress reports whether a text is a host or host:port.
func isAddress(s string) bool {
	if len(s) > 255 || strings.ContainsAny(s, "/@?#%") {
		return false
	}
	_, ok := lex.ParseURL("ssh://" + s)
	return ok && !strings.HasSuffix(s, ":") && !strings.HasSuffix(s, ":0")
}

// within reports whether a number is within the bounds of a declaration.
func within(p *holdfastv1.Param, n int64) bool {
	return (p.Min == nil || n >= int64(p.GetMin())) && (p.Max == nil || n <= int64(p.GetMax()))
}

// bounds returns the bounds of a declaration: " of 1 to 86400".
func bounds(p *holdfastv1.Param, text func(int32) string) string {
	switch {
	case p.Min != nil && p.Max != nil:
		return " of " + text(p.GetMin()) + " to " + text(p.GetMax())
	case p.Min != nil:
		return " of at least " + text(p.GetMin())
	case p.Max != nil:
		return " of at most " + text(p.GetMax())
	}
	return ""
}
