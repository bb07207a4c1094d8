package redfish

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/bmc/internal/access"
	"github.com/holdfast-metal/holdfast/providers/internal/text"
)

// reply is an error response of a Redfish service (DSP0266 §8.6). The service is there, and it did
// not perform the request.
type reply struct {
	Method string
	Path   string
	Status int
	Codes  []string // MessageIds, e.g. Base.1.8.ActionNotSupported
	Text   string   // human-readable; bounded
	body   []byte   // bounded
	NotYet bool     // 404 for a resource that the service itself has named: the BMC is starting
}

func (r *reply) Error() string {
	s := fmt.Sprintf("%s %s: answered %d %s", r.Method, r.Path, r.Status, http.StatusText(r.Status))
	if len(r.Codes) > 0 {
		s += " (" + strings.Join(r.Codes, ", ") + ")"
	}
	if r.Text != "" {
		s += ": " + r.Text
	}
	if r.NotYet {
		s += " (it may be starting)"
	}
	return s
}

// maxReply bounds the part of a response that is kept to search for names, in bytes.
const maxReply = 8 << 10

// newReply parses the body of an error response.
func newReply(method, path string, status int, body []byte) *reply {
	var b struct {
		Error struct {
			Code    string `json:"code"`
			Message string `json:"message"`
			Info    []struct {
				MessageID string `json:"MessageId"`
				Message   string `json:"Message"`
			} `json:"@Message.ExtendedInfo"`
		} `json:"error"`
	}
	r := &reply{Method: method, Path: path, Status: status, body: bytes.Clone(body[:min(len(body), maxReply)])}
	if json.Unmarshal(body, &b) != nil {
		return r // not JSON, such as an HTML page
	}
	r.Text = b.Error.Message
	for i, m := range b.Error.Info {
		if i == 4 {
			break
		}
		r.Codes = append(r.Codes, text.Clip(m.MessageID, 80))
		if m.Message != "" {
			r.Text = m.Message
		}
	}
	if len(r.Codes) == 0 && b.Error.Code != "" {
		r.Codes = []string{text.Clip(b.Error.Code, 80)}
	}
	r.Text = text.Clip(r.Text, access.MaxText)
	return r
}

// has reports whether one of the reply's codes contains one of the words.
func (r *reply) has(words ...string) bool {
	for _, c := range r.Codes {
		for _, w := range words {
			if strings.Contains(c, w) {
				return true
			}
		}
	}
	return false
}

// names reports whether a reply is a refusal that mentions a parameter, in a message, its arguments
// or its properties.
func (r *reply) names(parameter string) bool {
	return r.Status/100 == 4 && bytes.Contains(r.body, []byte(parameter))
}

// notYet marks a 404 for a resource that every service has, or that this one has shown before. A
// starting BMC returns it until its data is loaded.
func notYet(err error) error {
	if r, ok := errors.AsType[*reply](err); ok && r.Status == http.StatusNotFound {
		r.NotYet = true
	}
	return err
}

// statusOf returns the HTTP status of the reply in err, or 0 if there is none.
func statusOf(err error) int {
	if r, ok := errors.AsType[*reply](err); ok {
		return r.Status
	}
	return 0
}

// Class returns the class of a reply.
func (r *reply) Class() providers.Class {
	// Transient errors can have any status: HPE returns 400 while a machine is in POST, Dell 503
	// if it has too many sessions.
	if r.NotYet || r.has("DuringSystemPOST", "ResourceInUse", "TemporarilyUnavailable",
		"ResourceInStandby", "SessionLimitExceeded", "RAC0218") {
		return providers.Transient
	}
	switch r.Status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return providers.Auth
	case http.StatusBadRequest,
		http.StatusNotFound,
		http.StatusMethodNotAllowed,
		http.StatusNotImplemented,
		http.StatusUnprocessableEntity:
		return providers.Unsupported
	case http.StatusGone:
		return providers.Gone
	}
	return providers.Transient
}
