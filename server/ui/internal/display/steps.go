package display

import (
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/holdfast-metal/holdfast/proto/holdfast/stepkind"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// PlanStep is a step, formatted.
type PlanStep struct {
	Number                       int
	Name, Kind, Timeout, Retries string
	Effect                       string // the effect on the machine
	Destroys                     bool   // it destroys data
	Interrupts                   bool   // it interrupts workloads
	Params                       []Fact
}

// PlanSteps formats the steps of a plan.
func PlanSteps(p *holdfastv1.Plan) []PlanStep {
	var all []PlanStep
	for i, s := range p.GetSteps() {
		row := PlanStep{Number: i + 1, Name: s.GetName(), Timeout: "default", Retries: "default"}
		if s.GetTimeoutSeconds() > 0 {
			row.Timeout = duration(time.Duration(s.GetTimeoutSeconds()) * time.Second)
		}
		if s.MaxRetries != nil {
			row.Retries = fmt.Sprint(s.GetMaxRetries())
		}
		row.Kind, row.Params = stepKind(s)
		row.Effect, row.Interrupts, row.Destroys = effect(s)
		all = append(all, row)
	}
	return all
}

// effect describes the effect of a step on a machine, and reports whether it interrupts
// workloads or destroys data.
func effect(s *holdfastv1.Step) (text string, interrupts, destroys bool) {
	k := stepkind.Of(s)
	if s.GetPower() == nil {
		return k.GetEffect(), k.GetInterrupts(), k.GetDestroys()
	}
	action := strings.ToLower(s.GetPower().GetAction())
	return "turns the power " + action, action != "on", k.GetDestroys()
}

// stepKind returns the name of a step's kind and its parameters.
func stepKind(s *holdfastv1.Step) (kind string, params []Fact) {
	m := s.ProtoReflect()
	fd := m.WhichOneof(m.Descriptor().Oneofs().ByName("kind"))
	if fd == nil {
		return "", nil
	}
	payload := m.Get(fd).Message()
	fields := payload.Descriptor().Fields()
	for i := range fields.Len() {
		if f := fields.Get(i); payload.Has(f) {
			params = append(params, Fact{Name: string(f.Name()), Value: value(f, payload.Get(f))})
		}
	}
	return string(fd.Name()), params
}

func value(f protoreflect.FieldDescriptor, v protoreflect.Value) string {
	switch {
	case f.IsList():
		var items []string
		for i := range v.List().Len() {
			items = append(items, v.List().Get(i).String())
		}
		return strings.Join(items, " ")
	case f.IsMap():
		var items []string
		v.Map().Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
			items = append(items, k.String()+"="+v.String())
			return true
		})
		return strings.Join(items, " ")
	case f.Message() != nil:
		if d, ok := v.Message().Interface().(*durationpb.Duration); ok {
			return d.AsDuration().String()
		}
	}
	return v.String()
}
