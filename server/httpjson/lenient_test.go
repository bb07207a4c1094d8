package httpjson

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
)

// inner and sample are types as the bodies of the APIs have them.
type inner struct {
	Count int64 `json:"count"`
}

type sample struct {
	N  *int32             `json:"n"`
	B  bool               `json:"b"`
	F  float64            `json:"f"`
	S  string             `json:"s"`
	L  []inner            `json:"l"`
	M  map[string]float64 `json:"m"`
	In struct {
		Total uint32 `json:"total"`
	} `json:"in"`
	inner
}

// lenientCases are bodies, and what they mean or their refusal.
var lenientCases = map[string]string{ //nolint:gochecknoglobals // a table
	`{"n":50}`:       `n=50`,
	`{"n":"50"}`:     `n=50`,
	`{"n":50.0}`:     `n=50`,
	`{"n":5e1}`:      `n=50`,
	`{"n":"50.0"}`:   `n=50`,
	`{"N":" 9090 "}`: `n=9090`,
	`{"n":null}`:     ``,
	`{"n":"-3"}`:     `n=-3`,

	`{"b":true}`:                          `b=true`,
	`{"b":"true"}`:                        `b=true`,
	`{"b":"False"}`:                       ``,
	`{"b":1}`:                             `b=true`,
	`{"b":"on","n":"1"}`:                  `n=1 b=true`,
	`{"f":"24"}`:                          `f=24`,
	`{"f":"2.5e1"}`:                       `f=25`,
	`{"l":[{"count":"7"},{"count":8.0}]}`: `l=[{7} {8}]`,
	`{"m":{"a":"1.5"}}`:                   `m=map[a:1.5]`,
	`{"in":{"total":"9"}}`:                `total=9`,
	`{"count":"11"}`:                      `count=11`,
	"\ufeff{\"n\":1}":                     `n=1`,
	`{"n":"7","other":[{}],"s":"7"}`:      `n=7 s=7`,

	`{"n":50.5}`:            "n: want a whole number, not number 50.5",
	`{"n":"50.5"}`:          "n: want a whole number, not string",
	`{"n":"x"}`:             "n: want a whole number, not string",
	`{"n":""}`:              "n: want a whole number, not string",
	`{"n":"0x10"}`:          "n: want a whole number, not string",
	`{"n":"NaN"}`:           "n: want a whole number, not string",
	`{"n":3000000000}`:      "n: want a whole number, not number 3000000000",
	`{"n":[1]}`:             "n: want a whole number, not array",
	`{"n":true}`:            "n: want a whole number, not bool",
	`{"f":"Infinity"}`:      "f: want a number, not string",
	`{"b":"perhaps"}`:       "b: want true or false, not string",
	`{"b":2}`:               "b: want true or false, not number",
	`{"b":"null"}`:          "b: want true or false, not string",
	`{"s":7}`:               "s: want a string, not number",
	`{"l":[{"count":"x"}]}`: "l.count: want a whole number, not string",
	`{"l":"[]"}`:            "l: want a list, not string",
	`[]`:                    "body: want an object, not array",
}

func TestLenient(t *testing.T) {
	for in, want := range lenientCases {
		var v sample
		got := ""
		if bad := Read(httptest.NewRequest("POST", "/", strings.NewReader(in)), &v); bad != nil {
			got = bad.Message
		} else {
			got = v.text()
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", in, got, want)
		}
	}
}

// text returns the fields that are set.
func (v *sample) text() string {
	var all []string
	add := func(set bool, format string, a any) {
		if set {
			all = append(all, strings.TrimSpace(fmt.Sprintf(format, a)))
		}
	}
	if v.N != nil {
		add(true, "n=%v", *v.N)
	}
	add(v.B, "b=%v", v.B)
	add(v.F != 0, "f=%v", v.F)
	add(v.S != "", "s=%v", v.S)
	add(len(v.L) > 0, "l=%v", v.L)
	add(len(v.M) > 0, "m=%v", v.M)
	add(v.In.Total != 0, "total=%v", v.In.Total)
	add(v.Count != 0, "count=%v", v.Count)
	return strings.Join(all, " ")
}

// FuzzLenient: a body that encoding/json takes is read as it reads it. Of any other, the converted
// form is read alike a second time.
func FuzzLenient(f *testing.F) {
	for in := range lenientCases {
		f.Add([]byte(in))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var strict, lenient, again sample
		err, lerr := json.Unmarshal(b, &strict), unmarshal(b, &lenient)
		if err == nil && (lerr != nil || !reflect.DeepEqual(strict, lenient)) {
			t.Errorf("%q: got %+v, %v, want %+v", b, lenient, lerr, strict)
		}
		if lerr != nil {
			return
		}
		if err := json.Unmarshal(converted(b, reflect.TypeFor[*sample]()), &again); err != nil ||
			!reflect.DeepEqual(lenient, again) {
			t.Errorf("%q: converted: got %+v, %v, want %+v", b, again, err, lenient)
		}
	})
}
