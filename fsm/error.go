package fsm

import "github.com/holdfast-metal/holdfast/fsm/internal/refusal"

// Error is a refusal: a command or query that the state does not allow. It is the same on
// every peer, and the state is unchanged.
type Error = refusal.Error

// FieldViolation describes one invalid field of a request.
type FieldViolation = refusal.FieldViolation

// Code is the class of a refusal. It has a gRPC code of the same name.
type Code = refusal.Code

// The classes of refusals.
const (
	InvalidArgument    = refusal.InvalidArgument
	NotFound           = refusal.NotFound
	AlreadyExists      = refusal.AlreadyExists
	FailedPrecondition = refusal.FailedPrecondition
	// The state has changed since the command was made: retry.
	Aborted    = refusal.Aborted
	OutOfRange = refusal.OutOfRange
	// The caller's credentials are unknown or no longer valid.
	Unauthenticated = refusal.Unauthenticated
	// The caller is known and may not do this.
	PermissionDenied = refusal.PermissionDenied
)

// The reasons that callers decide by. They are stable, because clients receive them too.
const (
	ReasonStaleEpoch      = "STALE_EPOCH"      // a newer leader has taken over
	ReasonRunFinished     = "RUN_FINISHED"     // a terminal run never changes
	ReasonCancelRequested = "CANCEL_REQUESTED" // no attempt begins after a cancel request
	ReasonAttemptMismatch = "ATTEMPT_MISMATCH" // not the step or attempt that is next
	ReasonPlanHeld        = "PLAN_HELD"        // the brake holds the plan: none of its runs begins
	ReasonLogGap          = "LOG_GAP"          // the log would have a gap
	ReasonProviderChanged = "PROVIDER_CHANGED" // capabilities were checked for another provider
	// Capabilities were checked for the steps of another plan of the same name.
	ReasonPlanChanged     = "PLAN_CHANGED"
	ReasonIDTaken         = "ID_TAKEN" // a generated id is in use: generate another
	ReasonConsoleOpen     = "CONSOLE_OPEN"
	ReasonActiveRun       = "ACTIVE_RUN"       // the machine has an active run
	ReasonRequestConflict = "REQUEST_CONFLICT" // the request id names a run with another body
	ReasonCursorGone      = "CURSOR_GONE"      // the cursor is older than the oldest event kept
	ReasonStageGone       = "STAGE_GONE"       // staged chunks are missing: restart the upload
	ReasonRunsActive      = "RUNS_ACTIVE"      // a restore would abandon active runs
	// The snapshot is of another cluster, and this one is not empty.
	ReasonOtherCluster    = "OTHER_CLUSTER"
	ReasonTokenUnknown    = "TOKEN_UNKNOWN" // the caller's token does not exist
	ReasonTokenRevoked    = "TOKEN_REVOKED"
	ReasonTokenExpired    = "TOKEN_EXPIRED"
	ReasonOutOfScope      = "OUT_OF_SCOPE"   // outside the caller's pools, or the agent's machine
	ReasonPrivilege       = "PRIVILEGE"      // a caller cannot grant more than its own rights
	ReasonBootstrapped    = "BOOTSTRAPPED"   // the bootstrap token already exists
	ReasonSecretVersion   = "SECRET_VERSION" // another version was stored meanwhile
	ReasonSecretInUse     = "SECRET_IN_USE"  // machines refer to it
	ReasonSecretPools     = "SECRET_POOLS"   // it is limited to pools that the machine is not in
	ReasonSigningKeyMoved = "SIGNING_KEY_MOVED"
	ReasonImageInUse      = "IMAGE_IN_USE" // an active run installs it
	// ReasonDeviceNoted: another note of the device is stored.
	ReasonDeviceNoted = "DEVICE_NOTED"
)

// Invalid returns an InvalidArgument error with the violations, or nil if there are none.
func Invalid(fields []FieldViolation) *Error { return refusal.Invalid(fields) }

func refuse(c Code, reason, format string, args ...any) *Error {
	return refusal.New(c, reason, format, args...)
}

func invalid(field, format string, args ...any) *Error {
	return refusal.InvalidField(field, format, args...)
}
