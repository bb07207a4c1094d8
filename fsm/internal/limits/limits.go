// Package limits declares how many elements each repeated field and map of a command may have, and
// finds those with more. Apply must be quick for every legal command, so no list is without a
// limit. The edge refuses by the same table what Apply would refuse. It must not know what a field
// means.
//
// Texts and bytes have no limits here: the size of a log entry bounds them, and rules read them in
// time that grows with their length.
package limits

import "google.golang.org/protobuf/reflect/protoreflect"

// Limits that rules and proposers need too. A proposer of many things must split them into commands
// within these.
const (
	Labels       = 256 // of a machine or pool
	MACs         = 64  // of a machine
	HostKeys     = 8   // of a machine
	Tags         = 64  // of a node
	Gpus         = 1024
	Workers      = 256  // of a GPU
	Steps        = 100  // of a plan
	Params       = 50   // of a plan
	Choices      = 100  // of a parameter
	Held         = 1000 // pools in which a plan is held
	Failed       = 64   // machines in the record of a ramp
	SecretKeys   = 32
	Pools        = 64 // of a token, a secret or a release
	SigningKeys  = 16
	ReportedKeys = 16 // host keys that an installer reports
	Serials      = 64 // certificates of a peer
	Readings     = 64 // of clocks
	Evidence     = 256
	Conditions   = 64 // of a machine

	Heartbeats   = 512 // of one command
	PoolReports  = 16  // heartbeats of pools among these, which may have many GPUs
	Expiries     = 1024
	Observed     = 500  // machines whose conditions were observed
	Observations = 1000 // conditions of all these machines
	Appends      = 512  // runs whose logs grow
	Chunks       = 4096
	DropTokens   = 1000
	Swept        = 64 // pools
	Resealed     = 64 // secrets
	Denials      = 1000
	WaveMachines = 5000
	Sessions     = 32 // of a NoteSessions
	DropSessions = 500
	DropConsoles = 16
	Output       = 1024 // pieces of a console's output
)

// declared returns the limit of each repeated field and map of a command, by its full name.
func declared() map[protoreflect.FullName]int {
	const internal, public = "holdfast.internal.v1.", "holdfast.v1."
	return map[protoreflect.FullName]int{
		internal + "AppendRunLogs.appends":        Appends,
		internal + "BeginAttempt.evidence_before": Evidence,
		internal + "CheckpointLeases.leases":      Heartbeats,
		internal + "CompareClocks.readings":       Readings,
		internal + "DropConsoles.session_ids":     DropConsoles,
		internal + "DropSessions.session_ids":     DropSessions,
		internal + "DropTokens.token_ids":         DropTokens,
		internal + "EndAttempt.evidence_after":    Evidence,
		internal + "ExpireLeases.leases":          Expiries,
		internal + "LogAppend.chunks":             Chunks,
		internal + "MachineConditions.conditions": Conditions,
		internal + "NoteProgress.evidence":        Evidence,
		internal + "NoteSessions.sessions":        Sessions,
		internal + "ObserveConditions.machines":   Observed,
		internal + "Origin.pools":                 1024,
		internal + "PeerAdmission.serials":        Serials,
		internal + "PeerRecord.serials":           Serials,
		internal + "PoolReport.gpus":              Gpus,
		internal + "PutSigningKeys.keys":          SigningKeys,
		internal + "RecordConsole.output":         Output,
		internal + "RecordDenials.events":         Denials,
		internal + "ReleasePlan.pools":            Pools,
		internal + "ResealSecrets.keys":           SigningKeys,
		internal + "ResealSecrets.secrets":        Resealed,
		internal + "StartRun.params":              Params,
		internal + "StartWave.machine_ids":        WaveMachines,
		internal + "SweepPools.pool_ids":          Swept,
		internal + "UpdateMachine.paths":          2 * Labels,
		internal + "UpdateNode.paths":             64,

		public + "Gpu.workers":                    Workers,
		public + "HardwareInventory.missing":      64,   // more than are kept
		public + "HardwareInventory.parts":        1024, // the same
		public + "HardwareInventory.unread":       64,   // kinds of parts
		public + "HardwareSummary.partial":        8,    // computed on read, a field each
		public + "Image.File.copies":              64,   // peers; computed on read
		public + "Machine.labels":                 Labels,
		public + "MachineSpec.mac_addresses":      MACs,
		public + "MachineSpec.ssh_host_keys":      HostKeys,
		public + "MachineStatus.banners":          64, // computed on read
		public + "MachineStatus.conditions":       Conditions,
		public + "MachineStatus.issues":           Conditions, // computed on read
		public + "NodeRecord.tags":                Tags,
		public + "Param.choices":                  Choices,
		public + "Plan.held":                      Held, // not the client's, as the next ones
		public + "Plan.params":                    Params,
		public + "Plan.ramps":                     1000,
		public + "Plan.recent":                    1000,
		public + "PlanRamp.failed":                Failed,
		public + "Plan.steps":                     Steps,
		public + "PlatformProvider.gpu_models":    Gpus,
		public + "Pool.gpus":                      Gpus,
		public + "Pool.labels":                    Labels,
		public + "ReportInstallRequest.host_keys": ReportedKeys,
		public + "Secret.keys":                    SecretKeys,
		public + "Secret.pools":                   Pools,
		public + "Secret.used_by":                 64, // computed on read
		public + "SshCommand.args":                256,
		public + "SshCommand.env":                 256,
		public + "SshCommand.params":              Params,
		public + "Token.pools":                    Pools,
		public + "VerifyInCluster.labels":         64,
		public + "VerifyInCluster.taints":         64,
		public + "Wave.machines":                  WaveMachines, // computed on read
		public + "Wave.params":                    Params,
		public + "Wave.pools":                     WaveMachines, // computed
	}
}
