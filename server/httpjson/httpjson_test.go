package httpjson_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-metal/holdfast/server/auth"
	"github.com/holdfast-metal/holdfast/server/httpjson"
)

type body struct {
	Name  string   `json:"name"`
	Count int32    `json:"count"`
	Share float64  `json:"share"`
	On    bool     `json:"on"`
	Tags  []string `json:"tags"`
	Inner struct {
		Size uint8 `json:"size"`
	} `json:"inner"`
}

func request(r io.Reader) *http.Request { return httptest.NewRequest(http.MethodPost, "/", r) }

func TestRead(t *testing.T) {
	for in, want := range map[string]*httpjson.Bad{
		`{"name":"x","count":1,"unknown":{"a":[1]}}`: nil,
		`null`:                  nil,
		"\n {} \n":              nil,
		"":                      {Message: "body is not JSON: unexpected end of JSON input"},
		`{"name":`:              {Message: "body is not JSON: unexpected end of JSON input"},
		`{} x`:                  {Message: "body is not JSON: invalid character 'x' after top-level value"},
		`[]`:                    {Message: "body: want an object, not array"},
		`"x"`:                   {Message: "body: want an object, not string"},
		`{"name":7}`:            {Field: "name", Message: "name: want a string, not number"},
		`{"count":1.5}`:         {Field: "count", Message: "count: want a whole number, not number 1.5"},
		`{"count":3000000000}`:  {Field: "count", Message: "count: want a whole number, not number 3000000000"},
		`{"share":"much"}`:      {Field: "share", Message: "share: want a number, not string"},
		`{"share":1e999}`:       {Field: "share", Message: "share: want a number, not number 1e999"},
		`{"on":"perhaps"}`:      {Field: "on", Message: "on: want true or false, not string"},
		`{"tags":"x"}`:          {Field: "tags", Message: "tags: want a list, not string"},
		`{"inner":[]}`:          {Field: "inner", Message: "inner: want an object, not array"},
		`{"inner":{"size":-1}}`: {Field: "inner.size", Message: "inner.size: want a whole number, not number -1"},
	} {
		if diff := cmp.Diff(want, httpjson.Read(request(strings.NewReader(in)), &body{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", in, diff)
		}
	}
	if bad := httpjson.Read(request(iotest.ErrReader(errors.New("reset"))), &body{}); bad == nil ||
		bad.Message != "body is incomplete" || bad.Status() != 400 {
		t.Errorf("incomplete body: got %+v", bad)
	}
	for size, want := range map[int]int{auth.MaxBody: 400, auth.MaxBody + 1: 413} {
		r := request(nil)
		r.Body = http.MaxBytesReader(httptest.NewRecorder(), io.NopCloser(strings.NewReader(strings.Repeat("x", size))),
			auth.MaxBody)
		if bad := httpjson.Read(r, &body{}); bad == nil || bad.Status() != want || bad.TooLarge != (want == 413) {
			t.Errorf("%d bytes: got %+v, want status %d", size, bad, want)
		}
	}
}

func TestReadAny(t *testing.T) {
	in := body{Name: "before"}
	if bad := httpjson.ReadAny(request(strings.NewReader("")), &in); bad != nil || in.Name != "before" {
		t.Errorf("empty body: got %+v, %+v", bad, in)
	}
	if bad := httpjson.ReadAny(request(strings.NewReader(`{"name":"x"}`)), &in); bad != nil || in.Name != "x" {
		t.Errorf("body: got %+v, %+v", bad, in)
	}
	if bad := httpjson.ReadAny(request(strings.NewReader(`{`)), &in); bad == nil {
		t.Error("incomplete body: got no error")
	}
}

// TestStatus: every gRPC code has an HTTP status; unknown ones are internal errors.
func TestStatus(t *testing.T) {
	want := map[codes.Code]int{
		codes.OK: 200, codes.InvalidArgument: 400, codes.Unauthenticated: 401, codes.PermissionDenied: 403,
		codes.NotFound: 404, codes.AlreadyExists: 409,
		codes.FailedPrecondition: 409, codes.Aborted: 409, codes.OutOfRange: 410, codes.ResourceExhausted: 429,
		codes.Unavailable: 503, codes.DeadlineExceeded: 503, codes.Canceled: 503,
		codes.Internal: 500, codes.Unknown: 500, codes.DataLoss: 500, codes.Unimplemented: 500,
	}
	for c := codes.OK; c <= codes.Unauthenticated; c++ {
		if got := httpjson.Status(status.Error(c, "x")); got != want[c] {
			t.Errorf("%v: got %d, want %d", c, got, want[c])
		}
	}
	if got := httpjson.Status(errors.New("x")); got != 500 {
		t.Errorf("error without a code: got %d", got)
	}
}

func TestDetails(t *testing.T) {
	st, err := status.New(codes.InvalidArgument, "bad").WithDetails(&errdetails.ErrorInfo{Reason: "INVALID_FIELD"},
		&errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{{Field: "a",
			Description: "is wrong"}}})
	if err != nil {
		t.Fatal(err)
	}
	e := st.Err()
	if got := httpjson.Fields(e); httpjson.Reason(e) != "INVALID_FIELD" || httpjson.Message(e) != "bad" ||
		len(got) != 1 || got[0].GetField() != "a" {
		t.Errorf("got %q, %q, %v", httpjson.Reason(e), httpjson.Message(e), got)
	}
	bare := status.Error(codes.NotFound, "none")
	if httpjson.Reason(bare) != "" || httpjson.Fields(bare) != nil {
		t.Errorf("got details of %v", bare)
	}
}

func TestWrite(t *testing.T) {
	for code, want := range map[int]string{200: "", 400: "", 429: "1", 503: "1"} {
		w := httptest.NewRecorder()
		httpjson.Write(w, code, map[string]any{"a": nil})
		if w.Code != code || w.Body.String() != "{\"a\":null}\n" || w.Header().Get("Content-Type") != "application/json" ||
			w.Header().Get("Retry-After") != want {
			t.Errorf("%d: got %d %q, %v", code, w.Code, w.Body, w.Header())
		}
	}
	w := httptest.NewRecorder()
	w.Header().Set("Retry-After", "7")
	if httpjson.Write(w, 429, nil); w.Header().Get("Retry-After") != "7" {
		t.Errorf("Retry-After of the handler: got %v", w.Header())
	}
}

// TestAdd: routes exist with and without a trailing slash. A path that gRPC cannot carry is
// refused in the API's error form.
func TestAdd(t *testing.T) {
	m := auth.Open().NewMux()
	writeError := func(w http.ResponseWriter, _ *http.Request, code int, err *auth.Error) {
		httpjson.Write(w, code, err.Message)
	}
	httpjson.Add(m, writeError, httpjson.Route{Pattern: "GET /a/{id}", RPC: "PoolService/GetPool",
		Handler: func(w http.ResponseWriter, r *http.Request) {
			httpjson.Write(w, http.StatusOK, r.PathValue("id"))
		}})
	for path, want := range map[string]string{"/a/x": `200 "x"`, "/a/x/": `200 "x"`, "/a/%C3%A9": `200 "é"`,
		"/a/%ff": `400 "the path is not UTF-8"`, "/a/x%ff/": `400 "the path is not UTF-8"`} {
		w := httptest.NewRecorder()
		m.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://localhost"+path, nil))
		if got := fmt.Sprintf("%d %s", w.Code, strings.TrimSpace(w.Body.String())); got != want {
			t.Errorf("%s: got %s, want %s", path, got, want)
		}
	}
}

// TestUnrepresentableBody checks that a body that JSON cannot represent is an error in the API's
// form, not a truncated response.
func TestUnrepresentableBody(t *testing.T) {
	m := auth.Open().NewMux()
	writeError := func(w http.ResponseWriter, _ *http.Request, code int, err *auth.Error) {
		httpjson.Write(w, code, map[string]string{"word": err.Message})
	}
	httpjson.Add(m, writeError, httpjson.Route{Pattern: "GET /a", RPC: "PoolService/GetPool",
		Handler: func(w http.ResponseWriter, _ *http.Request) {
			httpjson.Write(w, http.StatusOK, math.NaN())
		}})
	w := httptest.NewRecorder()
	m.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://localhost/a", nil))
	if want := `{"word":"encode the response: json: unsupported value: NaN"}` + "\n"; w.Code != 500 ||
		w.Body.String() != want {
		t.Errorf("got %d %s, want %s", w.Code, w.Body, want)
	}
	bare := httptest.NewRecorder()
	if httpjson.Write(bare, http.StatusOK, math.Inf(1)); bare.Code != 500 || bare.Body.Len() == 0 {
		t.Errorf("unknown route: got %d %q", bare.Code, bare.Body)
	}
}

// FuzzRead: any body is decoded or refused with a printable message.
func FuzzRead(f *testing.F) {
	for _, s := range []string{`{"name":"x","count":1,"inner":{"size":3}}`, `{"count":1e400}`, `[`, "\xff",
		`{"name":"\ud800"}`, strings.Repeat("[", 20000)} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var in body
		bad := httpjson.Read(request(strings.NewReader(string(b))), &in)
		switch {
		case bad == nil && (!json.Valid(b) || !utf8.ValidString(in.Name)):
			t.Errorf("%q: got %+v, want a refusal", b, in)
		case bad != nil && (bad.Message == "" || bad.Status() != 400):
			t.Errorf("%q: got %+v", b, bad)
		}
	})
}

// TestMessageAs checks that a message names all fields as the caller does, and that a value which
// looks like the name of a field stays as it is.
func TestMessageAs(t *testing.T) {
	refused := func(message string, fields ...string) error {
		bad := &errdetails.BadRequest{}
		for i := 0; i < len(fields); i += 2 {
			bad.FieldViolations = append(bad.FieldViolations,
				&errdetails.BadRequest_FieldViolation{Field: fields[i], Description: fields[i+1]})
		}
		st, err := status.New(codes.InvalidArgument, message).WithDetails(bad)
		if err != nil {
			t.Fatal(err)
		}
		return st.Err()
	}
	for _, tt := range []struct {
		err  error
		want string
	}{
		{refused(`t.x_y: "t.x_y" is no name`, "t.x_y", `"t.x_y" is no name`), `xY: "t.x_y" is no name`},
		{refused("t.x_y: is required (and 1 more)", "t.x_y", "is required", "z", "is required"),
			"xY: is required; z: is required"},
		{status.Error(codes.NotFound, "service t.x_y not found"), "service t.x_y not found"},
		{refused("another text", "t.x_y", "is required"), "another text"},
	} {
		if got := httpjson.MessageAs(tt.err, strings.NewReplacer("t.x_y", "xY").Replace); got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
}
