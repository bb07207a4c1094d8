package loose_test

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-metal/holdfast/providers/bmc/internal/redfish/loose"
)

func parse(t *testing.T, body string) loose.Object {
	t.Helper()
	o, err := loose.Parse([]byte(body))
	if err != nil {
		t.Fatalf("parse %s: %v", body, err)
	}
	return o
}

// TestProperty checks each kind of property against the types that firmware uses for it. A value
// that cannot be read is listed as odd, and one that is unknown to the service is not.
func TestProperty(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		is                string
		text              string
		number            float64
		count             int64
		flag, set         bool
		words, links      []string
		oddText, oddCount bool
	}{
		{is: `null`},
		{is: `""`},
		{is: `"  S1 \u0000\u0000"`, text: "S1", words: []string{"S1"}, oddCount: true},
		{is: `87422082150`, text: "87422082150", number: 87422082150, count: 87422082150, words: []string{"87422082150"}},
		{is: `9007199254740993`, text: "9007199254740993", number: 9007199254740992, count: 9007199254740993,
			words: []string{"9007199254740993"}},
		{is: `"12.5"`, text: "12.5", number: 12.5, count: 12, words: []string{"12.5"}},
		{is: `-3`, text: "-3", number: -3, words: []string{"-3"}, oddCount: true},
		{is: `true`, text: "true", flag: true, set: true, words: []string{"true"}, oddCount: true},
		{is: `"False"`, text: "False", set: true, words: []string{"False"}, oddCount: true},
		{is: `"N/A"`, text: "N/A", words: []string{"N/A"}},
		{is: `["On", "ForceOff"]`, words: []string{"On", "ForceOff"}, oddText: true, oddCount: true},
		{is: `"On, ForceOff"`, text: "On, ForceOff", words: []string{"On", "ForceOff"}, oddCount: true},
		{is: `["x86-64"]`, text: "x86-64", words: []string{"x86-64"}, oddCount: true},
		{is: `[]`},
		{is: `{"@odata.id": "/a"}`, links: []string{"/a"}, oddText: true, oddCount: true},
		{is: `{"href": "/a"}`, links: []string{"/a"}, oddText: true, oddCount: true},
		{is: `[{"@odata.id": "/a"}, null, "/b", {"@odata.id": "/a/"}]`, links: []string{"/a", "/b"},
			oddText: true, oddCount: true},
		{is: `"/a"`, text: "/a", words: []string{"/a"}, links: []string{"/a"}, oddCount: true},
		{is: `"NaN"`, text: "NaN", words: []string{"NaN"}},
		{is: `1e400`, text: "1e400", words: []string{"1e400"}, oddCount: true},
	} {
		read := func() loose.Object { return parse(t, `{"p": `+tc.is+`}`) }
		o := read()
		if got := o.Text("p"); got != tc.text || tc.oddText != (len(o.Odd()) > 0) {
			t.Errorf("text of %s: got %q, odd %q; want %q, odd %v", tc.is, got, o.Odd(), tc.text, tc.oddText)
		}
		if got, _ := read().Number("p"); got != tc.number {
			t.Errorf("number of %s: got %v, want %v", tc.is, got, tc.number)
		}
		o = read()
		if got, _ := o.Count("p"); got != tc.count || tc.oddCount != (len(o.Odd()) > 0) {
			t.Errorf("count of %s: got %v, odd %q; want %v, odd %v", tc.is, got, o.Odd(), tc.count, tc.oddCount)
		}
		if got, set := read().Flag("p"); tc.set && got != tc.flag || tc.set && !set {
			t.Errorf("flag of %s: got %v %v, want %v %v", tc.is, got, set, tc.flag, tc.set)
		}
		if got := read().Words("p"); tc.links == nil && !slices.Equal(got, tc.words) {
			t.Errorf("words of %s: got %q, want %q", tc.is, got, tc.words)
		}
		if got := read().Links("p"); !slices.Equal(got, tc.links) {
			t.Errorf("links of %s: got %q, want %q", tc.is, got, tc.links)
		}
	}
}

// TestObjects checks objects inside, with other spellings of names, lists in place of objects, and
// the names of odd properties.
func TestObjects(t *testing.T) {
	t.Parallel()
	o := parse(t, `{
		"serialnumber": "S1",
		"Links": [{"ManagedBy": {"@odata.id": "/m"}, "Chassis": 7}],
		"Fans": [{"Reading": {}}, null, "/fans/1"],
		"@odata.nextLink": {"@odata.id": "/next"}
	}`)
	if got := o.Text("SerialNumber"); got != "S1" {
		t.Errorf("other case: got %q, want S1", got)
	}
	if got := o.In("Links").Link("ManagedBy"); got != "/m" {
		t.Errorf("a list in place of an object: got %q, want /m", got)
	}
	if got := o.In("Links", "Missing", "Deep").Text("x"); got != "" {
		t.Errorf("missing objects: got %q, want nothing", got)
	}
	o.In("Links").Links("Chassis")
	fans := o.Objects("Fans")
	if len(fans) != 2 || fans[1].Self() != "/fans/1" || !fans[1].Linked() || fans[0].Linked() {
		t.Errorf("got %d fans, want an object and a link", len(fans))
	}
	fans[0].Number("Reading")
	if diff := cmp.Diff([]string{"Links.Chassis", "Fans[0].Reading"}, o.Odd()); diff != "" {
		t.Errorf("odd properties (-want +got):\n%s", diff)
	}
	if got := o.Next(); got != "/next" {
		t.Errorf("next page: got %q, want /next", got)
	}
	if got := parse(t, `{"A": {"B": [{"C": 1}, {"C": 2}]}}`).At("/A/B/1").Text("C"); got != "2" {
		t.Errorf("pointer: got %q, want 2", got)
	}
}

// TestParse checks answers that are not quite JSON, and that an answer which is none returns an
// error without the text of a JSON decoder.
func TestParse(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		"\uFEFF" + `{"p": "v"}`:                 "v",
		"{\"p\": \"a\tb\x01\"}":                 "a b",
		`{"p": NaN, "q": -Infinity, "p": "v"}`:  "v",
		`{"q": nan, "p": "nan \" nan\\"}`:       `nan " nan\`,
		`{"p": "v"} <!-- served in 12 ms -->`:   "v",
		`[{"@odata.id": "/a"}]`:                 "",
		"{\"p\": \"\xff\xfe\"}":                 "\uFFFD\uFFFD",
		strings.Repeat(" ", 1000) + `{"p":"v"}`: "v",
	} {
		o, err := loose.Parse([]byte(body))
		if got := o.Text("p"); err != nil || got != want {
			t.Errorf("%.60q: got %q, %v; want %q", body, got, err, want)
		}
	}
	for _, body := range []string{
		"", "null", `"text"`, "7", "<html>", `{"p": "v"`, `{"p": "v",`, strings.Repeat("[", 20000),
	} {
		if _, err := loose.Parse([]byte(body)); err == nil || err.Error() != loose.ErrNotJSON.Error() {
			t.Errorf("%.40q: got %v, want %v", body, err, loose.ErrNotJSON)
		}
	}
}

// TestBrokenJSON checks what templates on BMCs write: it has one meaning, and costs nothing else.
func TestBrokenJSON(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{"a": "x", "p": NaN, }`:                        "",
		`{"a": "x", "p": -inf}`:                         "",
		`{"a": "x", "p": None,}`:                        "",
		`{"a": "x", "p": 7,,"b":[1,2,],}`:               "7",
		`{,"a": "x", "p": 007}`:                         "7",
		`{"a": "x", "p": +7}`:                           "7",
		`{"a": "x", "p": 7.}`:                           "7",
		`{"a": "x", "p":}`:                              "",
		`{"a": "x", "p":, "b": 1}`:                      "",
		`{a: "x", p: 7}`:                                "7",
		`{"a": "x", "p": 7, "b": "C:\dir\x"}`:           "7",
		"{\"a\": \"x\", \"p\": 7, \"b\": \"1\n2\x7f\"}": "7",
		`{"a": "x", "p": 23 C}`:                         "odd",
		`{"a": "x", "p": 0x1F}`:                         "odd",
	} {
		o := parse(t, body)
		got := ""
		if n, ok := o.Number("p"); ok {
			got = strconv.FormatFloat(n, 'f', -1, 64)
		} else if len(o.Odd()) > 0 {
			got = "odd"
		}
		if got != want || o.Text("a") != "x" {
			t.Errorf("%s: got %q, a %q, want %q, a x", body, got, o.Text("a"), want)
		}
	}
	for _, body := range []string{``, `<html>{"a": 1}</html>`, `{"a": "x`, `{"a": `, `"a"`, `7`, `Not Found`, `{"a" "b"}`} {
		if o, err := loose.Parse([]byte(body)); err == nil {
			t.Errorf("%s: got %v, want an error", body, o.Names())
		}
	}
}

// FuzzParse checks that any answer is parsed or refused, that all properties of it can be read as
// any type, and that what the standard library accepts as an object is accepted.
func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"@odata.id": "/a", "Members": [{"@odata.id": "/b"}, 7, "/c"], "Links": [null]}`))
	f.Add([]byte(`{"a": NaN, "b": -inf, "c": [[["x"]]], "d": {"e": {"f": 1e999}}}`))
	f.Add([]byte("{\"a\": \"\x00\t\"}"))
	f.Fuzz(func(t *testing.T, body []byte) {
		o, err := loose.Parse(body)
		var object map[string]any
		if json.Unmarshal(body, &object) == nil && object != nil && err != nil {
			t.Fatalf("got %v for a JSON object", err)
		}
		o.Next()
		o.Self()
		for _, name := range o.Names() {
			for _, s := range append(o.Words(name), o.Text(name)) {
				if strings.TrimSpace(s) != s {
					t.Errorf("got %q, which is not trimmed", s)
				}
			}
			if n, _ := o.Count(name); n < 0 {
				t.Errorf("got the count %d", n)
			}
			o.Number(name)
			o.Flag(name)
			o.Links(name)
			for _, inside := range o.Objects(name) {
				inside.Linked()
				inside.Alone().Text("x")
			}
			o.In(name, "Links").Link("x")
			o.At("/" + name + "/0")
		}
	})
}
