package request

import (
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// TestUnknown checks that fields of a newer client are found and removed in every part of a
// message: in itself, in a message of a field, and in a list.
func TestUnknown(t *testing.T) {
	newer := protowire.AppendVarint(protowire.AppendTag(nil, 5000, protowire.VarintType), 1)
	for _, tt := range []struct {
		want string // the message with the field; empty: none
		mark func(*holdfastv1.Plan)
	}{
		{"", func(*holdfastv1.Plan) {}},
		{"Plan", func(p *holdfastv1.Plan) { p.ProtoReflect().SetUnknown(newer) }},
		{"Step", func(p *holdfastv1.Plan) { p.GetSteps()[1].ProtoReflect().SetUnknown(newer) }},
		{"SshCommand", func(p *holdfastv1.Plan) { p.GetSteps()[1].GetSsh().ProtoReflect().SetUnknown(newer) }},
	} {
		ssh := &holdfastv1.Step_Ssh{Ssh: &holdfastv1.SshCommand{Command: "true"}}
		p := &holdfastv1.Plan{PlanId: "p", Steps: []*holdfastv1.Step{{Name: "one"}, {Name: "two", Kind: ssh}}}
		tt.mark(p)
		if name, found := HasUnknown(p.ProtoReflect()); name != tt.want || found != (tt.want != "") {
			t.Errorf("in %q: found %t in %q", tt.want, found, name)
		}
		if name, found := HasUnknown(WithoutUnknown(p).ProtoReflect()); found || p.GetPlanId() != "p" {
			t.Errorf("in %q: after the removal there is one in %q of %v", tt.want, name, p)
		}
	}
}
