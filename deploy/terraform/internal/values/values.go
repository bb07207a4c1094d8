// Package values converts between attributes of Terraform and fields of the API. It knows no
// resource.
//
// An attribute that the configuration omits is null. The resources that keep omitted fields leave
// it null when they are read (Kept, KeptLabels, KeptList), so that it is never a difference; an
// import reads all fields.
package values

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

// Kept returns the attribute of a field whose value the server has. If all is not set, a null
// attribute stays null. White space around a text is no difference: the server removes it.
func Kept(old types.String, live string, all bool) types.String {
	switch {
	case old.IsNull() && (!all || live == ""):
		return old
	case strings.TrimSpace(old.ValueString()) == live && !old.IsUnknown():
		return old
	}
	return types.StringValue(live)
}

// Whole returns the attribute of a field that a missing value sets to its default.
func Whole(old types.String, live, byDefault string) types.String {
	if old.IsNull() && live == byDefault {
		return old
	}
	return Kept(old, live, true)
}

// Texts returns the known texts of a list or set.
func Texts(v interface{ Elements() []attr.Value }) []string {
	var out []string
	for _, e := range v.Elements() {
		if s, ok := e.(types.String); ok && !s.IsUnknown() {
			out = append(out, s.ValueString())
		}
	}
	return out
}

// Map returns the known texts of a map, or nil if there are none.
func Map(v types.Map) map[string]string {
	var out map[string]string
	for k, e := range v.Elements() {
		if s, ok := e.(types.String); ok && !s.IsUnknown() {
			if out == nil {
				out = map[string]string{}
			}
			out[k] = s.ValueString()
		}
	}
	return out
}

// KeptLabels returns the labels of old with their values on the server; with all, every label of
// the server.
func KeptLabels(old types.Map, live map[string]string, all bool) types.Map {
	if all {
		if len(live) == 0 {
			return types.MapNull(types.StringType)
		}
		return labels(live)
	}
	if old.IsNull() {
		return old
	}
	out := map[string]string{}
	for k := range old.Elements() {
		if v, ok := live[k]; ok {
			out[k] = v
		}
	}
	return labels(out)
}

func labels(in map[string]string) types.Map {
	out := make(map[string]attr.Value, len(in))
	for k, v := range in {
		out[k] = types.StringValue(v)
	}
	return types.MapValueMust(types.StringType, out)
}

// Labels returns all labels; null if there are none.
func Labels(live map[string]string) types.Map {
	return KeptLabels(types.MapNull(types.StringType), live, true)
}

// MergedLabels returns the labels of the server after a change from was to now, and the keys that
// differ, in order.
func MergedLabels(live map[string]string, was, now types.Map) (merged map[string]string, changed []string) {
	before, after := Map(was), Map(now)
	merged = map[string]string{}
	maps.Copy(merged, live)
	for k, v := range after {
		if old, ok := before[k]; !ok || old != v {
			changed = append(changed, k)
		}
		merged[k] = v
	}
	for k := range before {
		if _, ok := after[k]; !ok {
			changed = append(changed, k)
			delete(merged, k)
		}
	}
	slices.Sort(changed)
	return merged, changed
}

// KeptSet returns the set of a list of texts on the server, whose order means nothing. It returns
// old if normal makes its elements those of the server.
func KeptSet(old types.Set, live []string, all bool, normal func(string) string) types.Set {
	if old.IsNull() && (!all || len(live) == 0) {
		return old
	}
	if !old.IsUnknown() && slices.Equal(sorted(Texts(old), normal), sorted(live, normal)) {
		return old
	}
	return Set(live)
}

// Set returns a set of texts.
func Set(in []string) types.Set { return types.SetValueMust(types.StringType, elements(in)) }

// List returns a list of texts.
func List(in []string) types.List { return types.ListValueMust(types.StringType, elements(in)) }

func elements(in []string) []attr.Value {
	out := make([]attr.Value, len(in))
	for i, s := range in {
		out[i] = types.StringValue(s)
	}
	return out
}

func sorted(in []string, normal func(string) string) []string {
	out := make([]string, len(in))
	for i, s := range in {
		out[i] = normal(s)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// MAC returns the digits of a MAC address, to compare addresses in any notation.
func MAC(s string) string {
	return strings.ToLower(strings.NewReplacer(":", "", "-", "", ".", "").Replace(strings.TrimSpace(s)))
}

// Same returns its argument.
func Same(s string) string { return s }

// Attributes returns the attributes of a model that have the type T, by name. The model is a
// pointer to a struct with tags of Terraform.
func Attributes[T attr.Value](model any) map[string]*T {
	all := map[string]*T{}
	v := reflect.ValueOf(model).Elem()
	for i := range v.NumField() {
		if p, ok := v.Field(i).Addr().Interface().(*T); ok {
			all[v.Type().Field(i).Tag.Get("tfsdk")] = p
		}
	}
	return all
}

// Sentence returns the help of a flag as the description of an attribute: it begins with a capital,
// and has no quotes around the name of the value.
func Sentence(help string) string {
	help = strings.ReplaceAll(help, "`", "")
	return strings.ToUpper(help[:1]) + help[1:]
}
