package redfish

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/bmc/internal/access"
	"github.com/holdfast-metal/holdfast/providers/bmc/internal/redfish/loose"
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
	To     string   // where a redirect leads to
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
	switch {
	case r.To != "":
		s += fmt.Sprintf(" (it redirects to %s: not followed, use that in the endpoint if it is the BMC)",
			text.Clip(r.To, 200))
	case r.NotYet:
		s += " (it may be starting)"
	case r.unlicensed():
		s += " (the BMC lacks a license for it)"
	case r.has("InsufficientPrivilege"):
		s += " (give the account of the BMC more privileges)"
	}
	return s
}

// maxReply bounds the part of a response that is kept to search for names, in bytes.
const maxReply = 8 << 10

// newReply returns the reply with the body of an error response, which has its messages below error
// (DSP0266 §8.6.2), at the top, or beside a property.
func newReply(method, path string, status int, body []byte) *reply {
	r := &reply{Method: method, Path: path, Status: status, body: bytes.Clone(body[:min(len(body), maxReply)])}
	o, err := loose.Parse(body)
	if err != nil {
		return r // such as an HTML page
	}
	inside := o.In("error")
	r.Text = cmp.Or(inside.Text("message"), o.Text("message"))
	for _, m := range slices.Concat(messages(inside), messages(o)) {
		if len(r.Codes) == 4 {
			break
		}
		if code := cmp.Or(m.Text("MessageId"), m.Text("code")); code != "" {
			r.Codes = append(r.Codes, text.Clip(code, 80))
		}
		r.Text = cmp.Or(m.Text("Message"), r.Text)
	}
	if code := cmp.Or(inside.Text("code"), o.Text("code")); len(r.Codes) == 0 && code != "" {
		r.Codes = []string{text.Clip(code, 80)}
	}
	if !inside.Has("message") && r.Text == "" { // the error is a text
		r.Text = o.Text("error")
	}
	r.Text = text.Clip(r.Text, access.MaxText)
	return r
}

// messages returns the messages of an error, also those about single properties.
func messages(o loose.Object) (all []loose.Object) {
	for _, name := range o.Names() {
		if strings.HasSuffix(strings.ToLower(name), "@message.extendedinfo") || strings.EqualFold(name, "Messages") {
			all = append(all, o.Objects(name)...)
		}
	}
	return all
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

// Class returns the class of a reply. "Not now" may succeed on a retry, so it is transient, with
// any status. "Never" needs the service's own word: a code, or a status that has no other meaning.
// A reply never counts as a refused login: requests that log in decide that by themselves.
func (r *reply) Class() providers.Class {
	switch {
	case r.NotYet || r.has(notNow()...):
		return providers.Transient
	case r.has(never()...), r.unlicensed():
		return providers.Unsupported
	}
	switch r.Status {
	case http.StatusUnauthorized: // Client.do has logged in again, and this session is refused too
		return providers.Auth
	case http.StatusMethodNotAllowed, http.StatusNotImplemented:
		return providers.Unsupported
	case http.StatusNotFound:
		if r.Method == http.MethodGet { // an action that is offered may only be unavailable
			return providers.Unsupported
		}
	case http.StatusGone:
		if r.Method == http.MethodGet {
			return providers.Gone
		}
	}
	return providers.Transient
}

// notNow returns parts of the codes of services that cannot perform a request at the moment: HPE
// returns 400 in POST, Dell 503 without a free session.
func notNow() []string {
	return []string{
		"DuringSystemPOST", "InvalidOperationForSystemState", "ResourceInUse", "ResourceInStandby",
		"ResourceNotReady", "TemporarilyUnavailable", "ServiceInUnknownState", "ServiceShuttingDown",
		"SessionLimitExceeded", "RAC0218", "PSU501", "HostLockdown", "SystemLockdown",
		"UpdateInProgress", "OperationTimeout",
	}
}

// never returns parts of the codes of services that say that a request can never succeed.
func never() []string {
	return []string{
		"ActionNotSupported", "ActionUnknown", "ActionParameterUnknown", "ActionParameterNotSupported",
		"ActionParameterValueNotInList", "UnsupportedOperation",
		"PropertyUnknown", "PropertyNotWritable", "PropertyValueNotInList", "InsufficientPrivilege",
	}
}

// unlicensed reports whether the service refuses the request for the lack of a license.
func (r *reply) unlicensed() bool {
	return r.has("License", "LIC5", "LIC9") ||
		r.Status == http.StatusForbidden && strings.Contains(strings.ToLower(r.Text), "licens")
}
