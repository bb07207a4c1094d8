package httpjson

import (
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestLenient(t *testing.T) {
	type body struct {
		N *Int32 `json:"n"`
		B Bool   `json:"b"`
	}
	for in, want := range map[string]string{
		`{"n":50}`:         `{"n":50,"b":false}`,
		`{"n":"50"}`:       `{"n":50,"b":false}`,
		`{"n":50.0}`:       `{"n":50,"b":false}`,
		`{"n":" 9090 "}`:   `{"n":9090,"b":false}`,
		`{"n":null}`:       `{"n":null,"b":false}`,
		`{"b":true}`:       `{"n":null,"b":true}`,
		`{"b":"true"}`:     `{"n":null,"b":true}`,
		`{"b":"False"}`:    `{"n":null,"b":false}`,
		`{"b":1}`:          `{"n":null,"b":true}`,
		"\ufeff{\"n\":1}":  `{"n":1,"b":false}`,
		`{"n":50.5}`:       "n: want a whole number, not number 50.5",
		`{"n":"x"}`:        "n: want a whole number, not string",
		`{"n":3000000000}`: "n: want a whole number, not number 3000000000",
		`{"n":[1]}`:        "n: want a whole number, not array",
		`{"b":"perhaps"}`:  "b: want true or false, not string",
		`{"b":2}`:          "b: want true or false, not number 2",
		`{"b":"null"}`:     "b: want true or false, not string",
	} {
		var got body
		text := ""
		if bad := Read(httptest.NewRequest("POST", "/", strings.NewReader(in)), &got); bad != nil {
			text = bad.Message
		} else {
			b, _ := json.Marshal(got)
			text = string(b)
		}
		if text != want {
			t.Errorf("%s: got %s, want %s", in, text, want)
		}
	}
}
