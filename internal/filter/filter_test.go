package filter_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/internal/filter"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

func machines() *filter.Schema {
	return &filter.Schema{
		Message: (*holdfastv1.Machine)(nil).ProtoReflect().Descriptor(),
		Aliases: map[string]string{"phase": "status.phase", "rack": "spec.rack", "mac_addresses": "spec.mac_addresses",
			"conditions": "status.conditions"},
		Keyed: map[string]filter.Keyed{"status.conditions": {Key: "type", Value: "status", Unknown: "unknown",
			Names: []string{"Reachable", "Degraded", "BMCReachable"}}},
		Hidden: []string{"status.banners"},
		Fixed:  []string{"machine_id"},
		Canonical: map[string]func(string) string{
			"spec.mac_addresses": func(s string) string { return strings.ToLower(strings.ReplaceAll(s, "-", ":")) },
		},
	}
}

func machine() *holdfastv1.Machine {
	return &holdfastv1.Machine{
		MachineId: "m-1",
		Labels:    map[string]string{"env": "prod", "topology.kubernetes.io/rack": "r7", "empty": "", "star": "a*b"},
		Spec: &holdfastv1.MachineSpec{
			Rack: "r7", BmcEndpoint: "10.0.0.1:443", Serial: `a"b\c`,
			MacAddresses: []string{"aa:bb:cc:dd:ee:01", "aa:bb:cc:dd:ee:02"},
		},
		Status: &holdfastv1.MachineStatus{
			Phase: holdfastv1.MachineStatus_IN_SERVICE,
			Conditions: []*holdfastv1.Condition{
				{Type: "Degraded", Status: false, Reason: "OK"},
				{Type: "Reachable", Status: true, Reason: "PingOK"},
				{Type: "BMCReachable", Status: true, Unknown: true, Reason: "Stale"},
			},
		},
		CreatedAt: timestamppb.New(time.Date(2026, 1, 29, 15, 10, 0, 0, time.UTC)),
		Revision:  42,
	}
}

func TestMatch(t *testing.T) {
	for _, tt := range []struct {
		filter string
		want   bool
	}{
		{"", true},
		{"  \n", true},
		// The examples of the documentation.
		{"phase=IN_SERVICE", true},
		{"phase=READY", false},
		{"machine_id=m-1", true},
		{"machine_id=m-2", false},
		{`phase = IN_SERVICE AND labels.rack = "r7"`, false},
		{`phase = IN_SERVICE AND spec.rack = "r7"`, true},
		// Enums by name, case-insensitive.
		{"phase=in_service", true},
		{"status.phase != Ready", true},
		{"phase:IN_SERVICE", true},
		// Strings, quoted and not, ordered, with wildcards.
		{"machine_id='m-1'", true},
		{`machine_id="m\u002d1"`, true},
		{`serial="x"`, false},
		{`spec.serial = "a\"b\\c"`, true},
		{"spec.bmc_endpoint=10.0.0.1:443", true},
		{"spec.bmcEndpoint=10.0.0.1:443", true},
		{"machine_id > m-0 machine_id < m-2", true},
		{"machine_id >= m-1 AND machine_id <= m-1", true},
		{"machine_id > m-1", false},
		{"machine_id = m-*", true},
		{"machine_id = *-1", true},
		{"machine_id = m*1*1", false},
		{"machine_id != x*", true},
		{"machine_id = *", true},
		// A star that is escaped is a star.
		{`machine_id = "m-\*"`, false},
		{`machine_id = "\*"`, false},
		{`machine_id = "m*\*"`, false},
		{`labels.star = "a\*b"`, true},
		{`labels.star = 'a\*b'`, true},
		{`labels.star = "a\**"`, true},
		{`labels.star = "*\*b"`, true},
		{`labels.star = "\*"`, false},
		{`labels.star != "a\*b"`, false},
		{`spec.location = ""`, true},
		// Labels.
		{"labels.env=prod", true},
		{"labels.env!=prod", false},
		{"labels.none!=prod", true},
		{`labels.none=""`, false},
		{`labels.empty=""`, true},
		{"labels:env", true},
		{`labels:"none"`, false},
		{"labels:*", true},
		{"labels.env:*", true},
		{"labels.none:*", false},
		{"labels.empty:*", true},
		{"labels.env:prod", true},
		{"labels.topology.kubernetes.io/rack = r7", true},
		{`labels."topology.kubernetes.io/rack" = r7`, true},
		// Repeated fields.
		{"mac_addresses:aa:bb:cc:dd:ee:02", true},
		{`mac_addresses:"AA-BB-CC-DD-EE-02"`, true},
		{`mac_addresses:"aa:bb:cc:dd:ee:03"`, false},
		{`mac_addresses:aa:bb:*`, true},
		{`mac_addresses:*`, true},
		{"status.conditions.reason:PingOK", true},
		{"status.conditions.reason:Nope", false},
		// Conditions by their type.
		{"conditions.Reachable = true", true},
		{"conditions.reachable = TRUE", true},
		{"conditions.Reachable != true", false},
		{"conditions.Degraded = false", true},
		{"conditions.Degraded:*", true},
		{"conditions.type:Reachable", true},
		// Unknown values are neither true nor false.
		{"conditions.BMCReachable = unknown", true},
		{"conditions.BMCReachable = Unknown", true},
		{"conditions.BMCReachable != unknown", false},
		{"conditions.BMCReachable = true", false},
		{"conditions.BMCReachable = false", false},
		{"conditions.BMCReachable != true", true},
		{"conditions.BMCReachable:*", true},
		{"conditions.Reachable = unknown", false},
		{"conditions.Reachable != unknown", true},
		// Times and numbers.
		{"created_at = 2026-01-29T15:10:00Z", true},
		{`created_at > "2026-01-29T16:09:59+01:00"`, true},
		{"created_at <= 2026-01-29T15:09:59.999Z", false},
		{"updated_at > 2000-01-01T00:00:00Z", false},
		{"updated_at < 2000-01-01T00:00:00Z", false},
		{"updated_at:*", false},
		{"created_at:*", true},
		{"revision = 42", true},
		{"revision > 9", true},
		{"revision != 42", false},
		{"status.active_run_id:*", false},
		{"status:*", true},
		// Operators: OR binds tighter than AND (AIP-160).
		{"NOT phase=READY", true},
		{"-phase=IN_SERVICE", false},
		{"NOT (phase=READY OR rack=r7)", false},
		{"machine_id=x AND rack=r7 OR rack=r7", false},
		{"rack=r7 OR rack=r7 AND machine_id=x", false},
		{"(machine_id=x AND rack=r7) OR rack=r7", true},
		{"rack=x OR rack=y OR rack=r7", true},
		{"rack=r7 machine_id=m-1", true},
		{"(((rack=r7)))", true},
		{"rack=r7 AND NOT machine_id=m-2", true},
		{"rack = r7\nAND\tphase : IN_SERVICE", true},
		{"rack=r7 AND(machine_id=m-1)", true},
	} {
		t.Run(tt.filter, func(t *testing.T) {
			s := machines()
			s.Aliases["serial"] = "spec.serial"
			f, err := filter.Compile(s, tt.filter)
			if err != nil {
				t.Fatal(err)
			}
			if got := f.Match(machine()); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
			if !f.Possible(machine()) && tt.want {
				t.Error("Possible: got false for a filter that matches")
			}
		})
	}
}

func TestErrors(t *testing.T) {
	for _, tt := range []struct{ filter, want string }{
		{"colour=red", `at character 1: there is no field "colour": did you mean labels.colour?` +
			": see: holdfast explain machine"},
		{"phasee=READY", `at character 1: there is no field "phasee": did you mean phase?`},
		{"rack=r7 AND spec.colour=red", `at character 13: there is no field "spec.colour"`},
		{"machine_id.x=red", `machine_id has no fields: there is no path "machine_id.x"`},
		{"status.banners:x", "is computed on read: it cannot be used in a filter"},
		{"phase=BROKEN", `at character 7: status.phase cannot be "BROKEN": want one of FACTORY_READY, READY`},
		{"phase>READY", "status.phase has no order"},
		{"conditions.Reachble = true",
			`there is no "Reachble" in status.conditions; known are: Reachable, Degraded, BMCReachable`},
		{"conditions.Reachable = maybe", "is true, false or unknown"},
		{"conditions.Reachable > true", "is true, false or unknown"},
		{"revision = many", `revision is a number from 0 up, "many" is not`},
		{"created_at > yesterday", `created_at is a time such as "2026-01-29T15:10:00Z", "yesterday" is not`},
		{"mac_addresses = x", "spec.mac_addresses is repeated: ask whether it has a value with spec.mac_addresses:x"},
		{"labels = x", "labels is a map: compare one entry with labels.key = x"},
		{"spec = x", "spec has fields"},
		{"IN_SERVICE", "IN_SERVICE is not a comparison: write one such as phase = READY"},
		{"rack = IN SERVICE", "at character 11: SERVICE is not a comparison"},
		{"rack=r7 and phase=READY", "write AND in upper case"},
		{"size(labels) > 3", "there are no functions"},
		{"rack=", "at character 6: a value is missing at the end"},
		{"rack==r7", "want a value, not '='"},
		{"=r7", "want a field, not '='"},
		{"rack=r7 AND", "a field is missing at the end"},
		{"rack=r7 OR", "a field is missing at the end"},
		{"(rack=r7", "at character 1: parenthesis is not closed"},
		{"rack=r7)", "at character 8: parenthesis was not opened"},
		{"()", "want a field, not ')'"},
		{`rack="r7`, "at character 6: string is not closed"},
		{`rack="\q"`, "is not an escape"},
		{`rack="é" AND colour=x`, "at character 14"},
		{"rack..x=1", "want a field, not '.'"},
		{"rack=\xff", "filter is not UTF-8"},
		{strings.Repeat("(", 100) + "rack=r7" + strings.Repeat(")", 100), "nested more than 64 deep"},
		{"rack=" + strings.Repeat("x", filter.MaxLength), "filter has 8197 bytes, at most 8192 are allowed"},
	} {
		name := tt.filter[:min(len(tt.filter), 30)]
		t.Run(name, func(t *testing.T) {
			_, err := filter.Compile(machines(), tt.filter)
			var bad *filter.Error
			if !errors.As(err, &bad) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want an *Error with %q", err, tt.want)
			}
		})
	}
}

func TestPinnedFixedPossible(t *testing.T) {
	for _, tt := range []struct {
		filter   string
		pinned   string
		fixed    bool
		possible bool // for m-1, IN_SERVICE
	}{
		{"", "", true, true},
		{"machine_id=m-1", "m-1", true, true},
		{"machine_id=m-2", "m-2", true, false},
		{"machine_id=m-2 AND phase=READY", "m-2", false, false},
		{"machine_id=m-1 AND phase=READY", "m-1", false, true},
		{"phase=READY AND (machine_id=m-1)", "m-1", false, true},
		{"machine_id=m-1 OR machine_id=m-2", "", true, true},
		{"machine_id=m-2 OR phase=READY", "", false, true},
		{"NOT machine_id=m-1", "", true, false},
		{"NOT phase=IN_SERVICE", "", false, true},
		{"machine_id=m-*", "", true, true},
		{"machine_id!=m-1", "", true, false},
	} {
		t.Run(tt.filter, func(t *testing.T) {
			f, err := filter.Compile(machines(), tt.filter)
			if err != nil {
				t.Fatal(err)
			}
			if got, ok := f.Pinned("machine_id"); got != tt.pinned || ok != (tt.pinned != "") {
				t.Errorf("pinned: got %q, %v, want %q", got, ok, tt.pinned)
			}
			if got := f.Fixed(); got != tt.fixed {
				t.Errorf("fixed: got %v, want %v", got, tt.fixed)
			}
			if got := f.Possible(machine()); got != tt.possible {
				t.Errorf("possible: got %v, want %v", got, tt.possible)
			}
		})
	}
}

// FuzzCompile finds panics, and filters that contradict their own negation, Pinned or Possible.
func FuzzCompile(f *testing.F) {
	for _, s := range []string{
		"phase=IN_SERVICE", `machine_id = "m-1" OR labels.env!=prod`, "-(rack=r7 AND NOT conditions.Reachable = true)",
		"created_at > 2026-01-29T15:10:00Z", `mac_addresses:"aa:*"`, "labels:env", `labels."a.b" = 'x\n'`,
		"revision>=1 status:*",
	} {
		f.Add(s)
	}
	schema := machines()
	all := []proto.Message{machine(), &holdfastv1.Machine{}, &holdfastv1.Machine{MachineId: "m-2",
		Labels: map[string]string{"env": "test"}}}
	f.Fuzz(func(t *testing.T, text string) {
		yes, err := filter.Compile(schema, text)
		if err != nil {
			var bad *filter.Error
			if !errors.As(err, &bad) || bad.Msg == "" || bad.At < 0 || bad.At > len(text) {
				t.Fatalf("got error %#v for %q", err, text)
			}
			return
		}
		if strings.TrimSpace(text) == "" || len(text) > filter.MaxLength-10 || strings.Count(text, "(") > 50 {
			return
		}
		no, err := filter.Compile(schema, "NOT ("+text+"\n)")
		if err != nil {
			t.Fatalf("negation of %q: %v", text, err)
		}
		for _, m := range all {
			if yes.Match(m) == no.Match(m) {
				t.Errorf("%q and its negation: got the same result for %v", text, m)
			}
			if yes.Match(m) && !yes.Possible(m) {
				t.Errorf("%q: got a match with %v, which Possible excludes", text, m)
			}
			if terms, ok := yes.Terms(always); ok && yes.Match(m) && !has(m.(*holdfastv1.Machine), terms) {
				t.Errorf("%q: got a match with %v, which does not have %v", text, m, terms)
			}
			if raw, err := proto.Marshal(m); err == nil && yes.Match(m) {
				for _, part := range yes.Texts(func(string) bool { return true }) {
					if !strings.Contains(string(raw), part) {
						t.Errorf("%q: got a match with %v, which does not have the text %q", text, m, part)
					}
				}
			}
			id, ok := yes.Pinned("machine_id")
			if ok && yes.Match(m) && m.(*holdfastv1.Machine).GetMachineId() != id {
				t.Errorf("%q: got a match with %v, but pins %q", text, m, id)
			}
		}
	})
}
