package ironic

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/guard"
	"github.com/holdfast-metal/holdfast/providers/internal/text"
)

// reply is an error response of Ironic.
type reply struct {
	Status int
	Text   string // human-readable; bounded
}

func (r *reply) Error() string {
	s := fmt.Sprintf("Ironic answered %d %s", r.Status, http.StatusText(r.Status))
	if r.Text != "" {
		s += ": " + r.Text
	}
	return s
}

// replyOf returns the response in gophercloud's error, which contains the whole body and the
// address.
func replyOf(err error) *reply {
	if r, ok := errors.AsType[*reply](err); ok {
		return r
	}
	var u gophercloud.ErrUnexpectedResponseCode
	if !errors.As(err, &u) {
		return nil
	}
	return &reply{Status: u.Actual, Text: faultOf(u.Body)}
}

// faultOf parses the text of an error: {"error_message": {"faultstring": …}}. In older versions the
// inner object is a string of JSON, and the router uses description instead of faultstring.
func faultOf(body []byte) string {
	var outer struct {
		Message json.RawMessage `json:"error_message"`
	}
	if json.Unmarshal(body, &outer) != nil || len(outer.Message) == 0 {
		return ""
	}
	inner := []byte(outer.Message)
	var text string
	if json.Unmarshal(inner, &text) == nil {
		inner = []byte(text)
	}
	var fault struct {
		Fault       string `json:"faultstring"`
		Description string `json:"description"`
	}
	if json.Unmarshal(inner, &fault) != nil {
		return clip(text)
	}
	fault.Fault = cmp.Or(fault.Fault, fault.Description)
	return clip(fault.Fault)
}

// maxText bounds text of Ironic in our errors, in bytes.
const maxText = 300

func clip(s string) string { return text.Clip(s, maxText) }

func status(err error) int {
	if r := replyOf(err); r != nil {
		return r.Status
	}
	return 0
}

// locked reports whether Ironic refused a request because the node is locked. Then nothing was
// done.
func locked(err error) bool {
	r := replyOf(err)
	return r != nil && r.Status == http.StatusConflict && strings.Contains(r.Text, "is locked")
}

// class returns the class of a reply. The outcome of an effect may be unknown.
func (r *reply) class(effect bool) providers.Class {
	switch r.Status {
	case http.StatusUnauthorized:
		return providers.Auth
	case http.StatusForbidden:
		if strings.Contains(r.Text, "protected") { // the node is protected from all users
			return providers.Unsupported
		}
		return providers.Auth
	case http.StatusNotFound:
		if strings.Contains(r.Text, "could not be found") {
			return providers.Gone
		}
		return providers.Unsupported
	case http.StatusGone:
		return providers.Gone
	case http.StatusBadRequest:
		// No conductor of that driver is running at the moment.
		if strings.Contains(r.Text, "No valid host was found") || strings.Contains(r.Text, "No conductor") {
			return providers.Transient
		}
		return providers.Unsupported
	case http.StatusMethodNotAllowed,
		http.StatusNotAcceptable,
		http.StatusUnprocessableEntity,
		http.StatusNotImplemented:
		return providers.Unsupported
	case http.StatusInternalServerError, http.StatusBadGateway, http.StatusGatewayTimeout:
		// The request may have reached a conductor.
		if effect && !strings.Contains(r.Text, "Unable to establish connection") {
			return providers.Timeout
		}
	}
	return providers.Transient
}

// classify adds a class to an error that has none.
func classify(op string, err error, effect bool) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*providers.Error](err); ok {
		return err
	}
	if r := replyOf(err); r != nil {
		return providers.Errorf(r.class(effect), op, "%w", r)
	}
	class, err := guard.Classify(err, effect)
	return providers.Errorf(class, op, "%w", err)
}

// blame classifies Ironic's explanation of a request that was accepted and failed. The class is
// Auth only for the exact words of sushy and keystone.
func blame(op, text string) error {
	class := providers.Failed
	switch {
	case strings.Contains(text, "returned code 401"),
		strings.Contains(text, "returned code 403"),
		strings.Contains(text, "AccessError"):
		class = providers.Auth
	case strings.Contains(text, "does not support"), strings.Contains(text, "is not supported"):
		class = providers.Unsupported
	}
	return providers.Errorf(class, op, "Ironic reports: %s", clip(text))
}
