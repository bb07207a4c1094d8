package jsonapi

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-metal/holdfast/server/auth"
)

// statusOf returns the HTTP status of a code in this API. It is that of the other HTTP APIs, except
// that a caller can distinguish a deadline, a cancellation and a missing method.
func statusOf(c codes.Code) int {
	switch c {
	case codes.DeadlineExceeded:
		return http.StatusGatewayTimeout
	case codes.Canceled:
		return 499 // the client closed the request, as nginx and Google's APIs have it
	case codes.Unimplemented:
		return http.StatusNotImplemented
	}
	return auth.StatusOf(c)
}

// problem is the body of an error (RFC 9457). Code, reason and the details are those of gRPC.
type problem struct {
	Type          string            `json:"type"`
	Title         string            `json:"title"`
	Status        int               `json:"status"`
	Detail        string            `json:"detail"`
	Code          string            `json:"code"`
	Reason        string            `json:"reason,omitempty"`
	Metadata      map[string]string `json:"metadata,omitempty"`
	Fields        []violation       `json:"fields,omitempty"`
	Preconditions []precondition    `json:"preconditions,omitempty"`
	RetryAfterMs  int64             `json:"retry_after_ms,omitempty"`
}

type violation struct {
	Field       string `json:"field"`
	Description string `json:"description"`
}

type precondition struct {
	Type        string `json:"type"`
	Subject     string `json:"subject"`
	Description string `json:"description"`
}

// requestID is the field that a header sets over HTTP (readKey).
const requestID = "request_id"

// problemOf returns the problem of an error.
func problemOf(err error) *problem {
	st := status.Convert(err)
	p := &problem{
		Type: "about:blank", Status: statusOf(st.Code()), Detail: st.Message(),
		Code: code.Code(st.Code()).String(),
	}
	if isTooLarge(err) {
		p.Status = http.StatusRequestEntityTooLarge
	}
	for _, d := range st.Details() {
		switch d := d.(type) {
		case *errdetails.ErrorInfo:
			p.Reason, p.Metadata = d.GetReason(), d.GetMetadata()
		case *errdetails.BadRequest:
			for _, f := range d.GetFieldViolations() {
				v := violation{f.GetField(), f.GetDescription()}
				if v.Field == requestID && strings.HasPrefix(v.Description, "is required") {
					v.Description += ": send it as the header Idempotency-Key"
					p.Detail = strings.Replace(p.Detail, f.GetDescription(), v.Description, 1)
				}
				p.Fields = append(p.Fields, v)
			}
		case *errdetails.PreconditionFailure:
			for _, v := range d.GetViolations() {
				p.Preconditions = append(p.Preconditions, precondition{v.GetType(), v.GetSubject(), v.GetDescription()})
			}
		case *errdetails.RetryInfo:
			p.RetryAfterMs = d.GetRetryDelay().AsDuration().Milliseconds()
		}
	}
	return p
}

// refuse writes an error.
func refuse(w http.ResponseWriter, err error) { problemOf(err).write(w) }

// writeError writes the errors of the gate, and 404 and 405.
func writeError(w http.ResponseWriter, _ *http.Request, code int, err *auth.Error) {
	p := problemOf(err)
	p.Status = code
	p.write(w)
}

func (p *problem) write(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	h.Set("Cache-Control", "no-store")
	if p.Status == http.StatusServiceUnavailable || p.Status == http.StatusTooManyRequests || p.RetryAfterMs > 0 {
		wait := max(time.Second, time.Duration(p.RetryAfterMs)*time.Millisecond)
		h.Set("Retry-After", strconv.Itoa(int((wait+time.Second-1)/time.Second)))
	}
	w.WriteHeader(p.Status)
	_, _ = w.Write(p.json()) // an error means that the client has disconnected
}

func (p *problem) json() []byte {
	if p.Title = http.StatusText(p.Status); p.Title == "" {
		p.Title = "Client Closed Request"
	}
	b, _ := json.Marshal(p) // a problem always marshals
	return b
}
