package crud

import (
	"fmt"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-metal/holdfast/client"
)

// gone reports whether an error means that the resource does not exist.
func gone(err error) bool { return status.Code(err) == codes.NotFound }

// Message returns the text of an error of the client, without the words of gRPC.
func Message(err error) string {
	if s, ok := status.FromError(err); ok {
		return s.Message()
	}
	return err.Error()
}

// fail adds an error of the client: each wrong value at its attribute.
func (r *Resource[M]) fail(d *diag.Diagnostics, verb string, m *M, err error) {
	summary := fmt.Sprintf("Cannot %s %s %q", verb, r.kind.Name, r.kind.ID(m))
	bad := client.FieldViolations(err)
	for _, v := range bad {
		r.wrong(d, summary, Violation{Field: v.GetField(), Text: v.GetDescription()})
	}
	if len(bad) == 0 {
		d.AddError(summary, Message(err))
	}
}

// wrong adds a violation at its attribute.
func (r *Resource[M]) wrong(d *diag.Diagnostics, summary string, v Violation) {
	field := r.field(v)
	name, rest := r.attribute(field)
	if name == "" {
		d.AddError(summary, field+": "+v.Text)
		return
	}
	at := path.Root(name)
	if key, ok := strings.CutPrefix(rest, "."); ok && name == "labels" {
		at = at.AtMapKey(key)
	}
	d.AddAttributeError(at, summary, field+": "+v.Text)
}

// field returns the field of a violation without the names of messages: mac_addresses[0]. A field
// that is an attribute with another name has the name of the attribute.
func (r *Resource[M]) field(v Violation) string {
	field := strings.TrimPrefix(strings.TrimPrefix(v.Field, r.kind.Name+"."), "spec.")
	if other, ok := r.kind.Rename[field]; ok {
		return other
	}
	return field
}

// attribute returns the attribute of a field, or "" if it has none, and the path in it.
func (r *Resource[M]) attribute(field string) (name, rest string) {
	name = field
	if at := strings.IndexAny(field, ".["); at >= 0 {
		name, rest = field[:at], field[at:]
	}
	if other, ok := r.kind.Rename[name]; ok {
		name = other
	}
	if _, ok := r.kind.Schema.Attributes[name]; !ok {
		return "", ""
	}
	return name, rest
}
