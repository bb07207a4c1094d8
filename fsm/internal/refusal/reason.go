package refusal

// The reasons that callers decide by. They are stable, because clients receive them too.
const (
	ReasonStaleEpoch      = "STALE_EPOCH"       // a newer leader has taken over
	ReasonRunFinished     = "RUN_FINISHED"      // a terminal run never changes
	ReasonCancelRequested = "CANCEL_REQUESTED"  // no attempt begins after a cancel request
	ReasonAttemptMismatch = "ATTEMPT_MISMATCH"  // not the step or attempt that is next
	ReasonPlanHeld        = "PLAN_HELD"         // the brake holds the plan: none of its runs begins
	ReasonIdentity        = "IDENTITY_CONFLICT" // the machine may be another one: nothing erases it
	ReasonLogGap          = "LOG_GAP"           // the log would have a gap
	ReasonProviderChanged = "PROVIDER_CHANGED"  // capabilities were checked for another provider
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
	ReasonClocksDiffer    = "CLOCKS_DIFFER" // no majority of the peers' clocks agrees
	ReasonTokenUnknown    = "TOKEN_UNKNOWN" // the caller's token does not exist
	ReasonTokenRevoked    = "TOKEN_REVOKED"
	ReasonTokenExpired    = "TOKEN_EXPIRED"
	ReasonSessionEnded    = "SESSION_ENDED"  // the caller's session was ended
	ReasonOutOfScope      = "OUT_OF_SCOPE"   // outside the caller's pools, or the agent's machine
	ReasonPrivilege       = "PRIVILEGE"      // a caller cannot grant more than its own rights
	ReasonBootstrapped    = "BOOTSTRAPPED"   // the bootstrap token already exists
	ReasonSecretVersion   = "SECRET_VERSION" // another version was stored meanwhile
	ReasonSecretInUse     = "SECRET_IN_USE"  // machines refer to it
	ReasonSecretPools     = "SECRET_POOLS"   // it is limited to pools that the machine is not in
	ReasonSigningKeyMoved = "SIGNING_KEY_MOVED"
	ReasonWaveFull        = "WAVE_FULL"      // a wave has its maximum of active runs
	ReasonWaveStopped     = "WAVE_STOPPED"   // a wave starts no more runs
	ReasonTooManyWaves    = "TOO_MANY_WAVES" // too many are active
	ReasonImageInUse      = "IMAGE_IN_USE"   // an active run installs it
	// ReasonDeviceNoted: another note of the device is stored.
	ReasonDeviceNoted = "DEVICE_NOTED"
)
