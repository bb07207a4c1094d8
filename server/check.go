package server

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// maxComment is the maximum length of a comment or a reason in a request, in bytes.
const maxComment = 1024

func quote(s string) string { return strconv.Quote(s) }

// required returns an error if a field is empty.
func required(field, value string) error {
	if value == "" {
		return invalid(field, "is required")
	}
	return nil
}

// checkComment returns an error if a comment is too long to be kept in the history.
func checkComment(field, value string) error {
	if len(value) > maxComment {
		return invalid(field, fmt.Sprintf("has %d bytes, at most %d are allowed", len(value), maxComment))
	}
	return nil
}

// clip truncates a text sent by a program. It is only stored for display, so a request is
// not refused because of its length.
func clip(s string, most int) string {
	return strings.ToValidUTF8(s[:min(len(s), most)], "")
}

// measured is a number in a client's request, with the name of its field.
type measured struct {
	field string
	value float64
}

// finite returns an error if a value is NaN or infinite. JSON cannot represent those, so
// no list that contains the value could be encoded.
func finite(all ...measured) error {
	for _, m := range all {
		if math.IsNaN(m.value) || math.IsInf(m.value, 0) {
			return invalid(m.field, fmt.Sprintf("is %v: want a finite number", m.value))
		}
	}
	return nil
}

// finiteGpus is finite for a list of GPUs.
func finiteGpus(field string, gpus []*holdfastv1.Gpu) error {
	for i, g := range gpus {
		at := field + "[" + strconv.Itoa(i) + "]."
		err := finite(
			measured{at + "total_vram_gb", g.GetTotalVramGb()},
			measured{at + "available_vram_gb", g.GetAvailableVramGb()},
			measured{at + "temperature_celsius", g.GetTemperatureCelsius()},
		)
		if err != nil {
			return err
		}
	}
	return nil
}

// violations returns an error for the violations, or nil if there are none.
func violations(fields []fsm.FieldViolation) error {
	if err := fsm.Invalid(fields); err != nil {
		return err
	}
	return nil // not a nil *fsm.Error
}

// dropUnknown removes the fields that this build does not know from a client's message.
// In a command they would stop every peer, because the FSM treats them as those of a
// newer version.
func dropUnknown(m protoreflect.Message) {
	visit(m, func(m protoreflect.Message) bool {
		if len(m.GetUnknown()) > 0 {
			m.SetUnknown(nil)
		}
		return true
	})
}

// hasUnknown returns the name of a message that has a field unknown to this build.
func hasUnknown(m protoreflect.Message) (name string, found bool) {
	visit(m, func(m protoreflect.Message) bool {
		if len(m.GetUnknown()) > 0 {
			name, found = string(m.Descriptor().Name()), true
		}
		return !found
	})
	return name, found
}

// visit calls f for a message and all messages in it, until f returns false.
func visit(m protoreflect.Message, f func(protoreflect.Message) bool) bool {
	if !f(m) {
		return false
	}
	more := true
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case fd.IsMap():
			if fd.MapValue().Message() != nil {
				v.Map().Range(func(_ protoreflect.MapKey, v protoreflect.Value) bool {
					more = visit(v.Message(), f)
					return more
				})
			}
		case fd.Message() == nil:
		case fd.IsList():
			for i := 0; more && i < v.List().Len(); i++ {
				more = visit(v.List().Get(i).Message(), f)
			}
		default:
			more = visit(v.Message(), f)
		}
		return more
	})
	return more
}
