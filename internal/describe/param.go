package describe

import (
	"strconv"
	"strings"
	"time"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// ParamType returns the values that a parameter allows: "true or false", "integer, 1 to 60".
func ParamType(p *holdfastv1.Param) string {
	number := func(n int32) string { return strconv.Itoa(int(n)) }
	text := strings.ToLower(Enum(p.GetType()))
	switch p.GetType() {
	case holdfastv1.Param_BOOL:
		return "true or false"
	case holdfastv1.Param_ENUM:
		return strings.Join(p.GetChoices(), ", ")
	case holdfastv1.Param_URL:
		text = "URL"
	case holdfastv1.Param_DURATION:
		number = func(n int32) string { return (time.Duration(n) * time.Second).String() }
	case holdfastv1.Param_TYPE_UNSPECIFIED:
		text = "text"
	}
	if p.GetMultiline() {
		text += " of several lines"
	}
	unit := ""
	if p.GetType() != holdfastv1.Param_INTEGER && p.GetType() != holdfastv1.Param_DURATION {
		unit = " bytes"
	}
	switch {
	case p.Min != nil && p.Max != nil:
		text += ", " + number(p.GetMin()) + " to " + number(p.GetMax()) + unit
	case p.Min != nil:
		text += ", at least " + number(p.GetMin()) + unit
	case p.Max != nil:
		text += ", at most " + number(p.GetMax()) + unit
	}
	return text
}
