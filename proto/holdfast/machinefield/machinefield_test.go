package machinefield_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/holdfast-metal/holdfast/proto/holdfast/machinefield"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// TestEveryFieldIsDeclared fails if a field of MachineSpec has no option machine_field, an
// incomplete one, or one that another field has.
func TestEveryFieldIsDeclared(t *testing.T) {
	taken := map[string]string{}
	for f := range machinefield.All() {
		if f.MachineField == nil || f.GetLabel() == "" || f.GetHelp() == "" || f.GetFlag() == "" {
			t.Errorf("field %s: got option machine_field {%v}, want one with label, help and flag", f.Path(), f.MachineField)
			continue
		}
		if f.GetUsual() && f.GetColumn() == "" {
			t.Errorf("field %s is usual, but has no column", f.Path())
		}
		if f.GetFacet() && (f.List() || !f.GetFilter()) {
			t.Errorf("field %s is a facet, but no text that filters can use by its name", f.Path())
		}
		for _, name := range []string{
			"label " + f.GetLabel(), "flag " + f.GetFlag(), "column " + f.GetColumn(), "attribute " + f.Attribute(),
		} {
			if other := taken[name]; other != "" && name != "column " {
				t.Errorf("fields %s and %s have the same %s", other, f.Path(), name)
			}
			taken[name] = f.Path()
		}
	}
}

// TestFieldsAreTexts fails if a field of MachineSpec is no text and no list of texts: the flags,
// columns and attributes of the declared fields are.
func TestFieldsAreTexts(t *testing.T) {
	fields := (*holdfastv1.MachineSpec)(nil).ProtoReflect().Descriptor().Fields()
	for i := range fields.Len() {
		if f := fields.Get(i); f.Kind() != protoreflect.StringKind || f.IsMap() {
			t.Errorf("spec.%s is no text and no list of texts", f.Name())
		}
	}
}

func TestValues(t *testing.T) {
	s := &holdfastv1.MachineSpec{}
	want := map[string]string{}
	for f := range machinefield.All() {
		want[f.Name()] = "a " + f.Name()
		if f.List() {
			f.SetTexts(s, []string{"a " + f.Name(), "b"})
			want[f.Name()] += ", b"
		} else {
			f.Set(s, want[f.Name()])
		}
	}
	got := map[string]string{}
	for f := range machinefield.All() {
		got[f.Name()] = f.Text(s)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("values (-want +got):\n%s", diff)
	}
	if s.GetRack() != "a rack" {
		t.Errorf("rack: got %q", s.GetRack())
	}
	if f, ok := machinefield.Named("rack"); !ok || f.Path() != "spec.rack" || f.Attribute() != "rack" {
		t.Errorf("field rack: got %v, %v", f, ok)
	}
	if _, ok := machinefield.Named("none"); ok {
		t.Error("found a field that does not exist")
	}
}
