package values

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

func TestKept(t *testing.T) {
	null, text, unknown := types.StringNull(), types.StringValue, types.StringUnknown()
	for _, tt := range []struct {
		name string
		old  types.String
		live string
		all  bool
		want types.String
	}{
		{"not managed", null, "r7", false, null},
		{"imported", null, "r7", true, text("r7")},
		{"imported, not set", null, "", true, null},
		{"same", text("r7"), "r7", false, text("r7")},
		{"drift", text("r7"), "r8", false, text("r8")},
		{"cleared by others", text("r7"), "", false, text("")},
		{"spaces", text(" r7 "), "r7", false, text(" r7 ")},
		{"unknown", unknown, "r7", false, text("r7")},
		{"unknown, not set", unknown, "", false, text("")},
	} {
		if got := Kept(tt.old, tt.live, tt.all); !got.Equal(tt.want) {
			t.Errorf("%s: got %s, want %s", tt.name, got, tt.want)
		}
	}
	if got := Whole(null, "amd64", "amd64"); !got.IsNull() {
		t.Errorf("default: got %s, want null", got)
	}
	if got := Whole(null, "arm64", "amd64"); !got.Equal(text("arm64")) {
		t.Errorf("not the default: got %s, want arm64", got)
	}
}

func labelsOf(pairs ...string) types.Map {
	m := map[string]attr.Value{}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = types.StringValue(pairs[i+1])
	}
	return types.MapValueMust(types.StringType, m)
}

func TestKeptLabels(t *testing.T) {
	null := types.MapNull(types.StringType)
	live := map[string]string{"env": "prod", "canary": "yes"}
	for _, tt := range []struct {
		name string
		old  types.Map
		live map[string]string
		all  bool
		want types.Map
	}{
		{"not managed", null, live, false, null},
		{"other labels stay", labelsOf("env", "prod"), live, false, labelsOf("env", "prod")},
		{"drift", labelsOf("env", "test"), live, false, labelsOf("env", "prod")},
		{"removed by others", labelsOf("zone", "a", "env", "prod"), live, false, labelsOf("env", "prod")},
		{"imported", null, live, true, labelsOf("env", "prod", "canary", "yes")},
		{"imported, none", null, nil, true, null},
		{"empty", labelsOf(), live, false, labelsOf()},
	} {
		if got := KeptLabels(tt.old, tt.live, tt.all); !got.Equal(tt.want) {
			t.Errorf("%s: got %s, want %s", tt.name, got, tt.want)
		}
	}
}

func TestMergedLabels(t *testing.T) {
	merged, changed := MergedLabels(map[string]string{"canary": "yes", "env": "test", "zone": "a"},
		labelsOf("env", "test", "zone", "a", "rack", "7"), labelsOf("env", "prod", "new", "", "rack", "7"))
	want := map[string]string{"canary": "yes", "env": "prod", "new": "", "rack": "7"}
	if diff := cmp.Diff(want, merged); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"env", "new", "zone"}, changed); diff != "" {
		t.Errorf("changed keys (-want +got):\n%s", diff)
	}
}

func TestSets(t *testing.T) {
	null := types.SetNull(types.StringType)
	written := Set([]string{"BB00.0000.0001", "aa:00:00:00:00:01"})
	live := []string{"aa:00:00:00:00:01", "bb:00:00:00:00:01"}
	for _, tt := range []struct {
		name string
		old  types.Set
		live []string
		all  bool
		want types.Set
	}{
		{"not managed", null, live, false, null},
		{"imported", null, live, true, Set(live)},
		{"notation and order", written, live, false, written},
		{"drift", written, live[:1], false, Set(live[:1])},
		{"cleared by others", written, nil, false, Set(nil)},
	} {
		if got := KeptSet(tt.old, tt.live, tt.all, MAC); !got.Equal(tt.want) {
			t.Errorf("%s: got %s, want %s", tt.name, got, tt.want)
		}
	}
}

// TestModifiers checks that a plan keeps a value that only looks different.
func TestModifiers(t *testing.T) {
	macs := func(was, now types.Set) types.Set {
		resp := planmodifier.SetResponse{PlanValue: now}
		SameMACs{}.PlanModifySet(t.Context(), planmodifier.SetRequest{StateValue: was, PlanValue: now}, &resp)
		return resp.PlanValue
	}
	upper, lower := Set([]string{"AA-BB-00-00-00-01"}), Set([]string{"aa:bb:00:00:00:01"})
	if got := macs(upper, lower); !got.Equal(upper) {
		t.Errorf("same address: got %s, want %s", got, upper)
	}
	if other := Set([]string{"aa:cc:00:00:00:01"}); !macs(upper, other).Equal(other) {
		t.Errorf("other address: got %s, want %s", macs(upper, other), other)
	}
	if none := types.SetNull(types.StringType); !macs(upper, none).IsNull() {
		t.Errorf("no longer managed: got %s, want null", macs(upper, none))
	}
	same := SameText{Same: func(was, now string) bool { return len(was) == len(now) }}
	for now, want := range map[string]string{"b": "a", "cc": "cc"} {
		resp := planmodifier.StringResponse{PlanValue: types.StringValue(now)}
		same.PlanModifyString(t.Context(), planmodifier.StringRequest{StateValue: types.StringValue("a"),
			PlanValue: resp.PlanValue}, &resp)
		if got := resp.PlanValue.ValueString(); got != want {
			t.Errorf("text %s: got %s, want %s", now, got, want)
		}
	}
}
