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

// Message returns the text of an error of the client, without the words of gRPC, and the setting of
// the provider that may be wrong.
func Message(err error) string {
	text := err.Error()
	if s, ok := status.FromError(err); ok {
		text = s.Message()
	}
	if setting := remedy(text); setting != "" {
		text += ": " + setting
	}
	return text
}

// remedy returns the setting of the provider for a connection that failed, or "". The causes are
// those of the client.
func remedy(text string) string {
	for cause, setting := range map[string]string{
		"it closes the connection":           "does the cluster require TLS? Set ca_file (HOLDFAST_CA)",
		"it requires a client certificate":   "set cert_file and key_file (HOLDFAST_CERT, HOLDFAST_KEY)",
		"it refuses the client certificate":  "is cert_file (HOLDFAST_CERT) of this cluster, and still valid?",
		"its certificate is not accepted":    "is ca_file (HOLDFAST_CA) the CA of this cluster?",
		"it answers in HTTP/1.1":             "set peers (HOLDFAST_ADDR) to the port of the gRPC API, usually 7400",
		"does not look like a TLS handshake": "the cluster has no TLS: leave out ca_file, cert_file and key_file",
		": connection refused":               "does a peer run there? Set peers (HOLDFAST_ADDR)",
		": there is no host ":                "is the address right? Set peers (HOLDFAST_ADDR)",
	} {
		if strings.Contains(text, cause) {
			return setting
		}
	}
	return ""
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
