package crud

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-metal/holdfast/client"
)

type thing struct {
	ID     types.String `tfsdk:"thing_id"`
	Rack   types.String `tfsdk:"rack_name"`
	Labels types.Map    `tfsdk:"labels"`
}

// store is a server with things.
type store struct {
	things  map[string]string // racks
	refuse  error             // of Delete
	service bool              // things are in service
	preview error
}

func (s *store) kind() Kind[thing] {
	return Kind[thing]{
		Name: "thing", Key: "thing_id", Upsert: true, Rename: map[string]string{"rack": "rack_name"},
		Schema: schema.Schema{Attributes: map[string]schema.Attribute{
			"thing_id": schema.StringAttribute{Required: true}, "rack_name": schema.StringAttribute{Optional: true},
			"labels": schema.MapAttribute{Optional: true, ElementType: types.StringType},
		}},
		ID: func(m *thing) string { return m.ID.ValueString() },
		Empty: func(id string) thing {
			return thing{ID: types.StringValue(id), Labels: types.MapNull(types.StringType)}
		},
		Read: func(_ context.Context, _ *client.Client, m *thing, _ bool) error {
			rack, ok := s.things[m.ID.ValueString()]
			if !ok {
				return status.Error(codes.NotFound, "thing not found")
			}
			m.Rack = types.StringValue(rack)
			return nil
		},
		Create: func(_ context.Context, _ *client.Client, m, _ *thing) error {
			s.things[m.ID.ValueString()] = m.Rack.ValueString()
			return nil
		},
		Delete: func(_ context.Context, _ *client.Client, m *thing) error {
			if s.refuse != nil {
				return s.refuse
			}
			delete(s.things, m.ID.ValueString())
			return nil
		},
		Check: func(m *thing) []Violation {
			if m.Rack.ValueString() == "" {
				return []Violation{{"thing.spec.rack", "is required"}}
			}
			return nil
		},
		MayDelete: func(context.Context, *client.Client, *thing) error {
			if s.service {
				return errors.New("it is in service")
			}
			return nil
		},
		Preview: func(context.Context, *client.Client, *thing, *thing) error { return s.preview },
		Retained: func(_ *thing, err error) string {
			if status.Code(err) == codes.FailedPrecondition {
				return "kept"
			}
			return ""
		},
	}
}

// object returns the value of a thing. A nil rack is unknown.
func object(id string, rack any) tftypes.Value {
	if rack == nil {
		rack = tftypes.UnknownValue
	}
	labels := tftypes.Map{ElementType: tftypes.String}
	return tftypes.NewValue(tftypes.Object{AttributeTypes: map[string]tftypes.Type{
		"thing_id": tftypes.String, "rack_name": tftypes.String, "labels": labels}},
		map[string]tftypes.Value{"thing_id": tftypes.NewValue(tftypes.String, id),
			"rack_name": tftypes.NewValue(tftypes.String, rack), "labels": tftypes.NewValue(labels, nil)})
}

// said returns the severity, the attribute and the text of each diagnostic.
func said(in diag.Diagnostics) []string {
	var out []string
	for _, d := range in {
		at := ""
		if with, ok := d.(diag.DiagnosticWithPath); ok {
			at = with.Path().String()
		}
		out = append(out, d.Severity().String()+" "+at+" "+d.Summary()+": "+d.Detail())
	}
	return out
}

func TestCreateRefusesDuplicates(t *testing.T) {
	s := &store{things: map[string]string{"a": "r1"}}
	k := s.kind()
	r := &Resource[thing]{kind: k}
	create := func(id string) []string {
		v := object(id, "r7")
		resp := resource.CreateResponse{State: tfsdk.State{Schema: k.Schema, Raw: tftypes.NewValue(v.Type(), nil)}}
		r.Create(t.Context(), resource.CreateRequest{Plan: tfsdk.Plan{Schema: k.Schema, Raw: v},
			Config: tfsdk.Config{Schema: k.Schema, Raw: v}}, &resp)
		return said(resp.Diagnostics)
	}
	want := []string{`Error  Cannot create thing "a": thing "a" exists already: import it: ` +
		`terraform import holdfast_thing.NAME a`}
	if diff := cmp.Diff(want, create("a")); diff != "" {
		t.Errorf("exists (-want +got):\n%s", diff)
	}
	if got := create("b"); got != nil {
		t.Errorf("new: got %q, want no diagnostic", got)
	}
	if diff := cmp.Diff(map[string]string{"a": "r1", "b": "r7"}, s.things); diff != "" {
		t.Errorf("things (-want +got):\n%s", diff)
	}
}

func TestDelete(t *testing.T) {
	for _, tt := range []struct {
		name string
		s    store
		want []string
	}{
		{"there", store{things: map[string]string{"a": "r1"}}, nil},
		{"gone", store{refuse: status.Error(codes.NotFound, "thing not found")}, nil},
		{"kept", store{refuse: status.Error(codes.FailedPrecondition, "referenced")},
			[]string{`Warning  The server keeps thing "a": kept`}},
		{"refused", store{refuse: status.Error(codes.PermissionDenied, "needs the role OPERATOR")},
			[]string{`Error  Cannot delete thing "a": needs the role OPERATOR`}},
		{"in service", store{service: true}, []string{`Error  Cannot delete thing "a": it is in service`}},
	} {
		k := tt.s.kind()
		r := &Resource[thing]{kind: k}
		state := tfsdk.State{Schema: k.Schema, Raw: object("a", "r1")}
		resp := resource.DeleteResponse{State: state}
		r.Delete(t.Context(), resource.DeleteRequest{State: state}, &resp)
		if diff := cmp.Diff(tt.want, said(resp.Diagnostics)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
		if len(tt.s.things) > 0 {
			t.Errorf("%s: got %v, want nothing left", tt.name, tt.s.things)
		}
	}
}

func TestReadRemovesMissing(t *testing.T) {
	k := (&store{}).kind()
	state := tfsdk.State{Schema: k.Schema, Raw: object("a", "r1")}
	resp := resource.ReadResponse{State: state}
	(&Resource[thing]{kind: k}).Read(t.Context(), resource.ReadRequest{State: state}, &resp)
	if got := said(resp.Diagnostics); got != nil || !resp.State.Raw.IsNull() {
		t.Errorf("got %q and state %s, want no state", got, resp.State.Raw)
	}
}

// TestUnknownValuesAreNotChecked checks a configuration whose values are known after an apply.
func TestUnknownValuesAreNotChecked(t *testing.T) {
	k := (&store{}).kind()
	for name, tt := range map[string]struct {
		rack any
		want []string
	}{
		"empty":   {"", []string{`Error rack_name Invalid thing "a": rack_name: is required`}},
		"right":   {"r1", nil},
		"unknown": {nil, nil},
	} {
		var resp resource.ValidateConfigResponse
		(&Resource[thing]{kind: k}).ValidateConfig(t.Context(), resource.ValidateConfigRequest{
			Config: tfsdk.Config{Schema: k.Schema, Raw: object("a", tt.rack)}}, &resp)
		if diff := cmp.Diff(tt.want, said(resp.Diagnostics)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestAttributesOfViolations(t *testing.T) {
	r := &Resource[thing]{kind: (&store{}).kind()}
	for field, want := range map[string]string{
		"thing.spec.rack":  "Error rack_name s: rack_name: bad",
		"rack[0]":          "Error rack_name s: rack[0]: bad",
		"thing.labels.a.b": `Error labels["a.b"] s: labels.a.b: bad`,
		"update_mask":      "Error  s: update_mask: bad",
	} {
		var d diag.Diagnostics
		r.wrong(&d, "s", Violation{field, "bad"})
		if diff := cmp.Diff([]string{want}, said(d)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", field, diff)
		}
	}
}

// TestPlan checks that another id replaces a resource, and that a plan refuses a deletion.
func TestPlan(t *testing.T) {
	s := &store{service: true}
	k := s.kind()
	r := &Resource[thing]{kind: k, client: &client.Client{}}
	plan := func(was, now tftypes.Value) (replaced int, diags []string) {
		p := tfsdk.Plan{Schema: k.Schema, Raw: now}
		resp := resource.ModifyPlanResponse{Plan: p}
		r.ModifyPlan(t.Context(), resource.ModifyPlanRequest{State: tfsdk.State{Schema: k.Schema, Raw: was}, Plan: p,
			Config: tfsdk.Config{Schema: k.Schema, Raw: now}}, &resp)
		return len(resp.RequiresReplace), said(resp.Diagnostics)
	}
	a := object("a", "r1")
	if n, d := plan(a, object("a", "r2")); n != 0 || d != nil {
		t.Errorf("another rack: got %d replacements, %q", n, d)
	}
	if n, d := plan(a, object("b", "r1")); n != 1 || d != nil {
		t.Errorf("another id: got %d replacements, %q", n, d)
	}
	s.preview = status.Error(codes.FailedPrecondition, "rack is full")
	want := []string{`Error  Cannot plan thing "a": rack is full`}
	if _, d := plan(a, object("a", "r2")); !cmp.Equal(want, d) {
		t.Errorf("refused: got %q, want %q", d, want)
	}
	if _, d := plan(a, a); d != nil {
		t.Errorf("no change: got %q, want no preview", d)
	}
	s.preview = status.Error(codes.PermissionDenied, "needs the role OPERATOR")
	want = []string{`Warning  The server has not checked thing "a": needs the role OPERATOR`}
	if _, d := plan(a, object("a", "r2")); !cmp.Equal(want, d) {
		t.Errorf("viewer: got %q, want %q", d, want)
	}
	want = []string{`Error  Cannot delete thing "a": it is in service`}
	if _, d := plan(a, tftypes.NewValue(a.Type(), nil)); !cmp.Equal(want, d) {
		t.Errorf("delete: got %q, want %q", d, want)
	}
}

// TestConnectionRemedies checks that a failed connection names the setting of the provider.
func TestConnectionRemedies(t *testing.T) {
	const prefix = "GetPool: no response in 21 tries: last error from 127.0.0.3:7400: "
	for cause, want := range map[string]string{
		"it closes the connection":                              "ca_file (HOLDFAST_CA)",
		"it requires a client certificate":                      "cert_file and key_file",
		"it refuses the client certificate: bad certificate":    "cert_file (HOLDFAST_CERT)",
		"its certificate is not accepted: issued by another CA": "ca_file (HOLDFAST_CA)",
		"connection refused":                                    "peers (HOLDFAST_ADDR)",
		"there is no host peer.example":                         "peers (HOLDFAST_ADDR)",
		"it answers in HTTP/1.1":                                "peers (HOLDFAST_ADDR)",
	} {
		got := Message(errors.New(prefix + cause))
		if !strings.HasPrefix(got, prefix+cause+": ") || !strings.Contains(got, want) {
			t.Errorf("%s: got %q, want %q in it", cause, got, want)
		}
	}
	if got := Message(status.Error(codes.NotFound, "pool not found")); got != "pool not found" {
		t.Errorf("got %q, want no remedy", got)
	}
}
