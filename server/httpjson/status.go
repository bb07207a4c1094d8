package httpjson

import (
	"fmt"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/status"

	"github.com/holdfast-metal/holdfast/server/auth"
)

// Status returns the default HTTP status of a call's error. An API may specify another one.
func Status(err error) int { return auth.StatusOf(status.Code(err)) }

// Message returns the message of a call's error.
func Message(err error) string { return status.Convert(err).Message() }

// mostNamed bounds the violations in a message.
const mostNamed = 10

// MessageAs is Message with all fields that were refused, each under the name that the caller
// writes: rename gets the one of the internal message. The values of the caller do not change.
func MessageAs(err error, rename func(field string) string) string {
	message, all := Message(err), Fields(err)
	if len(all) == 0 || !strings.HasPrefix(message, all[0].GetField()+": ") {
		return message
	}
	var named []string
	for _, f := range all[:min(len(all), mostNamed)] {
		named = append(named, rename(f.GetField())+": "+f.GetDescription())
	}
	message = strings.Join(named, "; ")
	if more := len(all) - len(named); more > 0 {
		message += fmt.Sprintf(" (and %d more)", more)
	}
	return message
}

// Reason returns ErrorInfo.reason of a call's error, or "".
func Reason(err error) string {
	for _, d := range status.Convert(err).Details() {
		if i, ok := d.(*errdetails.ErrorInfo); ok {
			return i.GetReason()
		}
	}
	return ""
}

// Fields returns the field violations in the BadRequest detail of a call's error.
func Fields(err error) []*errdetails.BadRequest_FieldViolation {
	for _, d := range status.Convert(err).Details() {
		if b, ok := d.(*errdetails.BadRequest); ok {
			return b.GetFieldViolations()
		}
	}
	return nil
}
