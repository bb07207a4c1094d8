package describe

import (
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Attempts returns the number of attempts of a step and its maximum: "2/3"; "" for a waiting
// step.
func Attempts(s *holdfastv1.StepStatus) string {
	if s.GetState() <= holdfastv1.StepStatus_WAITING {
		return ""
	}
	made := max(int32(len(s.GetAttempts())), s.GetRetryCount()+1)
	return fmt.Sprintf("%d/%d", made, max(s.GetMaxRetries()+1, made))
}

// Done returns the number of succeeded steps and their total: "2/5".
func Done(r *holdfastv1.Run) string {
	n := 0
	for _, s := range r.GetSteps() {
		if s.GetState() == holdfastv1.StepStatus_SUCCEEDED {
			n++
		}
	}
	return fmt.Sprintf("%d/%d", n, len(r.GetSteps()))
}

// Why returns, in a few words, the condition that a run waits for, or the reason why it did not
// succeed. It reports whether the run waits for something that has a next action or a deadline.
func Why(r *holdfastv1.Run) (text string, waits bool) {
	switch {
	case r.GetError().GetMessage() != "":
		return r.GetError().GetMessage(), false
	case r.GetError().GetReason() != "":
		return r.GetError().GetReason(), false
	case r.GetPhase() >= holdfastv1.Run_SUCCEEDED:
		return "", false
	case r.GetQueuePosition() > 0 && r.GetWait() != nil && r.GetWait().GetKind() != holdfastv1.Wait_QUEUE:
		return "waiting for " + Wait(r.GetWait()), false // its position does not matter while its plan is held
	case r.GetQueuePosition() > 0:
		return fmt.Sprintf("position %d in the queue", r.GetQueuePosition()), false
	case r.GetCancelRequestedAt() != nil:
		return "canceling", false
	case r.GetWait() != nil:
		return "waiting for " + Wait(r.GetWait()), true
	}
	return "", false
}

// DisksErased returns whether a run has erased the disks of its machine, with its evidence: "yes,
// by the host (2 of them): sda: …", or "no". It returns "" if the run did not come to know.
func DisksErased(r *holdfastv1.Run) string {
	for _, s := range r.GetSteps() {
		n := len(s.GetAttempts())
		if n == 0 {
			continue
		}
		seen := s.GetAttempts()[n-1].GetEvidenceAfter()
		said := seen["disks"]
		if said == "" {
			continue
		}
		by, erased := strings.CutPrefix(said, "disks erased ")
		if !erased {
			return "no"
		}
		var each []string
		for name, result := range seen {
			if disk, ok := strings.CutPrefix(name, "disk "); ok {
				each = append(each, disk+": "+result)
			}
		}
		slices.Sort(each)
		if len(each) == 0 {
			return "yes, " + by
		}
		return "yes, " + by + ": " + strings.Join(each, "; ")
	}
	return ""
}

// Enum returns the name of a value; "" if it is unspecified.
func Enum(v fmt.Stringer) string {
	if s := v.String(); !strings.HasSuffix(s, "_UNSPECIFIED") {
		return s
	}
	return ""
}

// Step returns the name of a step's kind and its parameters. The items of a list are joined with
// sep.
func Step(s *holdfastv1.Step, sep string) (kind string, params []Fact) {
	m := s.ProtoReflect()
	fd := m.WhichOneof(m.Descriptor().Oneofs().ByName("kind"))
	if fd == nil {
		return "", nil
	}
	payload := m.Get(fd).Message()
	fields := payload.Descriptor().Fields()
	for i := range fields.Len() {
		if f := fields.Get(i); payload.Has(f) {
			params = append(params, Fact{string(f.Name()), value(f, payload.Get(f), sep)})
		}
	}
	return string(fd.Name()), params
}

func value(f protoreflect.FieldDescriptor, v protoreflect.Value, sep string) string {
	var items []string
	switch {
	case f.IsList():
		for i := range v.List().Len() {
			items = append(items, v.List().Get(i).String())
		}
		return strings.Join(items, sep)
	case f.IsMap():
		v.Map().Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
			items = append(items, k.String()+"="+v.String())
			return true
		})
		slices.Sort(items)
		return strings.Join(items, sep)
	case f.Message() != nil:
		if d, ok := v.Message().Interface().(*durationpb.Duration); ok {
			return d.AsDuration().String()
		}
	}
	return v.String()
}
