package ironic

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/holdfast-metal/holdfast/providers"
)

// reply is an error that Ironic answered.
type reply struct {
	Status int
	Text   string // for people; bounded
}

func (r *reply) Error() string {
	s := fmt.Sprintf("Ironic answered %d %s", r.Status, http.StatusText(r.Status))
	if r.Text != "" {
		s += ": " + r.Text
	}
	return s
}

// replyOf takes the answer out of gophercloud's error, which has the whole body and the address in
// it.
func replyOf(err error) *reply {
	var r *reply
	if errors.As(err, &r) {
		return r
	}
	var u gophercloud.ErrUnexpectedResponseCode
	if !errors.As(err, &u) {
		return nil
	}
	return &reply{Status: u.Actual, Text: faultOf(u.Body)}
}

// faultOf reads the text of an error: {"error_message": {"faultstring": …}}, where older versions
// have the inner object as text in JSON, and the router says description.
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
	if fault.Fault == "" {
		fault.Fault = fault.Description
	}
	return clip(fault.Fault)
}

// maxText bounds what Ironic can put into our errors, in bytes.
const maxText = 300

func clip(s string) string {
	s = strings.Join(strings.Fields(strings.ToValidUTF8(s, "\uFFFD")), " ")
	if len(s) > maxText {
		s = strings.ToValidUTF8(s[:maxText], "") + "…"
	}
	return s
}

func status(err error) int {
	if r := replyOf(err); r != nil {
		return r.Status
	}
	return 0
}

// locked reports whether Ironic refused because the node is locked, which means that it has done
// nothing.
func locked(err error) bool {
	r := replyOf(err)
	return r != nil && r.Status == http.StatusConflict && strings.Contains(r.Text, "is locked")
}

// class reports what kind of error a reply is. Of an effect it may not be known what became of it.
func (r *reply) class(effect bool) providers.Class {
	switch r.Status {
	case http.StatusUnauthorized:
		return providers.Auth
	case http.StatusForbidden:
		if strings.Contains(r.Text, "protected") { // the node is, whoever asks
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
		// No conductor of that driver is there, right now.
		if strings.Contains(r.Text, "No valid host was found") || strings.Contains(r.Text, "No conductor") {
			return providers.Transient
		}
		return providers.Unsupported
	case http.StatusMethodNotAllowed, http.StatusNotAcceptable, http.StatusUnprocessableEntity, http.StatusNotImplemented:
		return providers.Unsupported
	case http.StatusInternalServerError, http.StatusBadGateway, http.StatusGatewayTimeout:
		if effect && !strings.Contains(r.Text, "Unable to establish connection") { // the request may have reached a conductor
			return providers.Timeout
		}
	}
	return providers.Transient
}

// classify puts an error into a class, unless somebody has done so before.
func classify(op string, err error, effect bool) error {
	if err == nil {
		return nil
	}
	var classed *providers.Error
	if errors.As(err, &classed) {
		return err
	}
	class := providers.Transient
	var dial *net.OpError
	var nerr net.Error
	var cert *tls.CertificateVerificationError
	var unknown x509.UnknownAuthorityError
	r := replyOf(err)
	switch {
	case r != nil:
		class, err = r.class(effect), r
	case errors.As(err, &cert), errors.As(err, &unknown):
		class = providers.Unsupported
		err = fmt.Errorf("%w: give the provider the certificate of its CA (ca_file), or set tls to insecure", err)
	case errors.Is(err, context.Canceled):
	case errors.Is(err, context.DeadlineExceeded):
		class = providers.Timeout
	case errors.As(err, &dial) && dial.Op == "dial" && !dial.Timeout():
	case errors.As(err, &nerr) && nerr.Timeout(), effect:
		class = providers.Timeout
	}
	return providers.Errorf(class, op, "%w", err)
}

// blame classes what Ironic says of something that failed after it was accepted. Auth is only what
// is one for sure: sushy's and keystone's own words.
func blame(op, what string) error {
	class := providers.Failed
	switch {
	case strings.Contains(what, "returned code 401"), strings.Contains(what, "returned code 403"), strings.Contains(what, "AccessError"):
		class = providers.Auth
	case strings.Contains(what, "does not support"), strings.Contains(what, "is not supported"):
		class = providers.Unsupported
	}
	return providers.Errorf(class, op, "Ironic says: %s", clip(what))
}
