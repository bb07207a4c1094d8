package httpjson

import (
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/status"

	"github.com/holdfast-metal/holdfast/server/auth"
)

// Status returns the default HTTP status of a call's error. An API may specify another one.
func Status(err error) int { return auth.StatusOf(status.Code(err)) }

// Message returns the message of a call's error.
func Message(err error) string { return status.Convert(err).Message() }

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
