package fsm

import (
	"github.com/holdfast-metal/holdfast/fsm/internal/refusal"
	"github.com/holdfast-metal/holdfast/fsm/internal/replay"
)

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
	ReasonStaleEpoch      = refusal.ReasonStaleEpoch
	ReasonClocksDiffer    = refusal.ReasonClocksDiffer
	ReasonRunFinished     = refusal.ReasonRunFinished
	ReasonCancelRequested = refusal.ReasonCancelRequested
	ReasonAttemptMismatch = refusal.ReasonAttemptMismatch
	ReasonPlanHeld        = refusal.ReasonPlanHeld
	ReasonIdentity        = refusal.ReasonIdentity
	ReasonLogGap          = refusal.ReasonLogGap
	ReasonProviderChanged = refusal.ReasonProviderChanged
	ReasonPlanChanged     = refusal.ReasonPlanChanged
	ReasonIDTaken         = refusal.ReasonIDTaken
	ReasonConsoleOpen     = refusal.ReasonConsoleOpen
	ReasonActiveRun       = refusal.ReasonActiveRun
	ReasonRequestConflict = refusal.ReasonRequestConflict
	ReasonCursorGone      = refusal.ReasonCursorGone
	ReasonStageGone       = refusal.ReasonStageGone
	ReasonRunsActive      = refusal.ReasonRunsActive
	ReasonOtherCluster    = refusal.ReasonOtherCluster
	ReasonTokenUnknown    = refusal.ReasonTokenUnknown
	ReasonTokenRevoked    = refusal.ReasonTokenRevoked
	ReasonTokenExpired    = refusal.ReasonTokenExpired
	ReasonSessionEnded    = refusal.ReasonSessionEnded
	ReasonOutOfScope      = refusal.ReasonOutOfScope
	ReasonPrivilege       = refusal.ReasonPrivilege
	ReasonBootstrapped    = refusal.ReasonBootstrapped
	ReasonSecretVersion   = refusal.ReasonSecretVersion
	ReasonSecretInUse     = refusal.ReasonSecretInUse
	ReasonSecretPools     = refusal.ReasonSecretPools
	ReasonSigningKeyMoved = refusal.ReasonSigningKeyMoved
	ReasonImageInUse      = refusal.ReasonImageInUse
	ReasonDeviceNoted     = refusal.ReasonDeviceNoted
	ReasonForgotten       = replay.ReasonForgotten
)

// Invalid returns an InvalidArgument error with the violations, or nil if there are none.
func Invalid(fields []FieldViolation) *Error { return refusal.Invalid(fields) }

func refuse(c Code, reason, format string, args ...any) *Error {
	return refusal.New(c, reason, format, args...)
}

func invalid(field, format string, args ...any) *Error {
	return refusal.InvalidField(field, format, args...)
}
