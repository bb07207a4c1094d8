package display

import (
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"

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
	switch k := s.GetKind().(type) {
	case *holdfastv1.Step_Repave:
		return "erases the disk and installs an image", true, true
	case *holdfastv1.Step_Rma:
		return "prepares the machine for return: optional wipe, power off", true, true
	case *holdfastv1.Step_Reboot:
		return "restarts the machine", true, false
	case *holdfastv1.Step_Power:
		if strings.EqualFold(k.Power.GetAction(), "on") {
			return "turns the power on", false, false
		}
		return "turns the power " + k.Power.GetAction(), true, false
	case *holdfastv1.Step_Netboot:
		return "sets the next boot device", false, false
	case *holdfastv1.Step_Ssh:
		return "runs a command on the host", true, false
	case *holdfastv1.Step_Join:
		return "joins the host to a cluster", false, false
	case *holdfastv1.Step_Verify:
		return "waits until its node is ready", false, false
	case *holdfastv1.Step_Net:
		return "applies a network configuration, rolled back unless confirmed", true, false
	case *holdfastv1.Step_ClearEventLog:
		return "reads and then clears the BMC's event log", false, true
	case *holdfastv1.Step_ResetBmc:
		return "restarts the BMC; the host keeps running", false, false
	case *holdfastv1.Step_Media:
		return "inserts or ejects virtual media", false, false
	case *holdfastv1.Step_Identify:
		return "switches the locator light", false, false
	case *holdfastv1.Step_Console:
		return "keeps the serial console open", false, false
	}
	return "reads only, changes nothing", false, false
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
