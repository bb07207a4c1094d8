package cli

import (
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/holdfast-metal/holdfast/internal/cli/render"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

func planKind() kind[*holdfastv1.Plan] {
	return kind[*holdfastv1.Plan]{
		noun: "plan", list: "plans",
		name:   (*holdfastv1.Plan).GetPlanId,
		header: []string{"PLAN", "NAME", "STEPS", "BUILT-IN", "USED", "HELD", "CREATED"},
		wide:   []string{"STEP NAMES"},
		row: func(p *holdfastv1.Plan, now time.Time, wide bool) []render.Text {
			row := []render.Text{
				plain(p.GetPlanId()),
				plain(p.GetDisplayName()),
				plain(fmt.Sprint(len(p.GetSteps()))),
				plain(truth(p.GetBuiltIn())),
				plain(truth(p.GetReferenced())),
				held(p, now),
				plain(render.Ago(now, at(p.GetCreatedAt()))),
			}
			if wide {
				row = append(row, plain(strings.Join(ids(p.GetSteps(), (*holdfastv1.Step).GetName), ",")))
			}
			return row
		},
	}
}

// held returns the time since which the brake holds a plan.
func held(p *holdfastv1.Plan, now time.Time) render.Text {
	if p.GetBrake() == nil {
		return plain("-")
	}
	return render.T(render.Ago(now, at(p.GetBrake().GetSince())), render.Red)
}

func planSteps(p *holdfastv1.Plan) *render.Table {
	t := render.NewTable("STEP", "KIND", "TIMEOUT", "RETRIES", "PARAMETERS")
	for _, s := range p.GetSteps() {
		timeout, retries := "default", "default"
		if s.GetTimeoutSeconds() > 0 {
			timeout = render.Duration(time.Duration(s.GetTimeoutSeconds()) * time.Second)
		}
		if s.MaxRetries != nil {
			retries = fmt.Sprint(s.GetMaxRetries())
		}
		kind, params := stepKind(s)
		t.Row(plain(s.GetName()), plain(kind), plain(timeout), plain(retries), plain(params))
	}
	return t
}

// stepKind returns the kind of a step and its settings.
func stepKind(s *holdfastv1.Step) (kind, params string) {
	m := s.ProtoReflect()
	fd := m.WhichOneof(m.Descriptor().Oneofs().ByName("kind"))
	if fd == nil {
		return "", ""
	}
	var parts []string
	payload := m.Get(fd).Message()
	fields := payload.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		if payload.Has(f) {
			parts = append(parts, fmt.Sprintf("%s=%s", f.Name(), shorten(value(f, payload.Get(f)))))
		}
	}
	return string(fd.Name()), strings.Join(parts, " ")
}

func value(f protoreflect.FieldDescriptor, v protoreflect.Value) string {
	if f.IsList() {
		var items []string
		for i := range v.List().Len() {
			items = append(items, v.List().Get(i).String())
		}
		return strings.Join(items, ",")
	}
	if f.Message() != nil {
		if d, ok := v.Message().Interface().(*durationpb.Duration); ok {
			return d.AsDuration().String()
		}
	}
	return v.String()
}

// shorten cuts a long script for the table.
func shorten(s string) string {
	const most = 40
	if r := []rune(s); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return s
}
