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
	field := strings.TrimPrefix(strings.TrimPrefix(v.Field, r.kind.Name+"."), "spec.")
	first, rest := field, ""
	if at := strings.IndexAny(field, ".["); at >= 0 {
		first, rest = field[:at], field[at:]
	}
	name := first
	if other, ok := r.kind.Rename[first]; ok {
		name = other
	}
	if _, ok := r.kind.Schema.Attributes[name]; !ok {
		d.AddError(summary, field+": "+v.Text)
		return
	}
	at := path.Root(name)
	if name == first || rest == "" {
		first = name
	}
	if key, ok := strings.CutPrefix(rest, "."); ok && name == "labels" {
		at = at.AtMapKey(key)
	}
	d.AddAttributeError(at, summary, first+rest+": "+v.Text)
}
