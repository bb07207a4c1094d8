package fsm

import "fmt"

// Code is the class of a refusal. It has a gRPC code of the same name.
type Code int

// The classes of refusals.
const (
	InvalidArgument Code = iota + 1
	NotFound
	AlreadyExists
	FailedPrecondition
	Aborted // the command was made from a state that has changed: make it again
	OutOfRange
	Unauthenticated  // nobody, or nobody any more
	PermissionDenied // somebody, but not one who may
)

// String returns the name of the gRPC code, as it is written in audit events: FAILED_PRECONDITION.
func (c Code) String() string {
	switch c {
	case InvalidArgument:
		return "INVALID_ARGUMENT"
	case NotFound:
		return "NOT_FOUND"
	case AlreadyExists:
		return "ALREADY_EXISTS"
	case FailedPrecondition:
		return "FAILED_PRECONDITION"
	case Aborted:
		return "ABORTED"
	case OutOfRange:
		return "OUT_OF_RANGE"
	case Unauthenticated:
		return "UNAUTHENTICATED"
	case PermissionDenied:
		return "PERMISSION_DENIED"
	}
	return "UNKNOWN"
}

// The reasons that callers decide by. They are stable: clients see them too.
const (
	ReasonStaleEpoch      = "STALE_EPOCH"      // a newer leader has taken over
	ReasonRunFinished     = "RUN_FINISHED"     // a terminal run never changes
	ReasonCancelRequested = "CANCEL_REQUESTED" // no attempt begins once a cancel was asked for
	ReasonAttemptMismatch = "ATTEMPT_MISMATCH" // not the step or attempt that is next
	ReasonPlanHeld        = "PLAN_HELD"        // the brake holds the run's plan: nothing of it begins
	ReasonLogGap          = "LOG_GAP"          // the log would have a hole
	ReasonProviderChanged = "PROVIDER_CHANGED" // capabilities were checked for another provider
	ReasonPlanChanged     = "PLAN_CHANGED"     // capabilities were checked for the steps of another plan of the same name
	ReasonIDTaken         = "ID_TAKEN"         // a generated id is in use: generate another
	ReasonConsoleOpen     = "CONSOLE_OPEN"
	ReasonActiveRun       = "ACTIVE_RUN"       // the machine has an active run
	ReasonRequestConflict = "REQUEST_CONFLICT" // the request id names a run with another body
	ReasonCursorGone      = "CURSOR_GONE"      // the cursor is older than what is kept
	ReasonStageGone       = "STAGE_GONE"       // what was staged of a snapshot file is not there (any more): begin anew
	ReasonRunsActive      = "RUNS_ACTIVE"      // a restore would abandon them
	ReasonOtherCluster    = "OTHER_CLUSTER"    // the snapshot is of another cluster, and this one is not empty
	ReasonTokenUnknown    = "TOKEN_UNKNOWN"    // the caller's token is not on record
	ReasonTokenRevoked    = "TOKEN_REVOKED"
	ReasonTokenExpired    = "TOKEN_EXPIRED"
	ReasonOutOfScope      = "OUT_OF_SCOPE"   // of the caller's pools, or of the agent's machine
	ReasonPrivilege       = "PRIVILEGE"      // nobody can give away more than their own rights
	ReasonBootstrapped    = "BOOTSTRAPPED"   // the bootstrap token was made already
	ReasonSecretVersion   = "SECRET_VERSION" // another version was stored meanwhile
	ReasonSecretInUse     = "SECRET_IN_USE"  // machines refer to it
	ReasonSecretPools     = "SECRET_POOLS"   // it is limited to pools that the machine is not in
	ReasonSigningKeyMoved = "SIGNING_KEY_MOVED"
	ReasonImageInUse      = "IMAGE_IN_USE" // an active run installs it
	// ReasonDeviceNoted: another note of the device is kept.
	ReasonDeviceNoted = "DEVICE_NOTED"
)

// Error is a refusal: a command or query that the state does not allow. It is the same on
// every peer, and nothing has changed.
type Error struct {
	Code    Code
	Reason  string // UPPER_SNAKE, stable
	Message string // what, which value, what next
	Meta    map[string]string
	Fields  []FieldViolation // of an InvalidArgument
}

// FieldViolation says what is wrong with one field of a request.
type FieldViolation struct {
	Field       string // path, e.g. machine.spec.mac_addresses[0]
	Description string
}

// Error returns the message.
func (e *Error) Error() string { return e.Message }

func refuse(c Code, reason, format string, args ...any) *Error {
	return &Error{Code: c, Reason: reason, Message: fmt.Sprintf(format, args...)}
}

func (e *Error) with(key, value string) *Error {
	if e.Meta == nil {
		e.Meta = map[string]string{}
	}
	e.Meta[key] = value
	return e
}

// Invalid makes the InvalidArgument of some violations; nil if there are none.
func Invalid(fields []FieldViolation) *Error {
	if len(fields) == 0 {
		return nil
	}
	e := refuse(InvalidArgument, "INVALID_FIELD", "%s: %s", fields[0].Field, fields[0].Description)
	if n := len(fields) - 1; n > 0 {
		e.Message += fmt.Sprintf(" (and %d more)", n)
	}
	e.Fields = fields
	return e
}

func invalid(field, format string, args ...any) *Error {
	return Invalid([]FieldViolation{{Field: field, Description: fmt.Sprintf(format, args...)}})
}
