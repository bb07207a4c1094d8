package fsm

import (
	"iter"

	"github.com/holdfast-metal/holdfast/fsm/internal/lifecycle"
	"github.com/holdfast-metal/holdfast/fsm/internal/runlog"
	"github.com/holdfast-metal/holdfast/fsm/internal/runs"
	"github.com/holdfast-metal/holdfast/fsm/internal/schema"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// ClusterRef returns the cluster of a step: its own, else the parameter cluster_ref, else the
// machine's, else "default".
func ClusterRef(m *holdfastv1.Machine, own string, params map[string]string) string {
	return runs.ClusterRef(m, own, params)
}

// SameWait reports whether two waits are for the same event. Their causes and times do not count.
func SameWait(a, b *holdfastv1.Wait) bool { return runs.SameWait(a, b) }

// Drains reports whether the success of a step means that the machine's node is drained. Such
// steps are scripts, recognized by name.
func Drains(s *holdfastv1.StepStatus) bool { return runs.Drains(s) }

// EvidenceSkipped is the evidence key for a step that was skipped because its host is dead. Its
// value is the reason.
const EvidenceSkipped = runs.EvidenceSkipped

// Skipped reports whether a step succeeded because it was skipped.
func Skipped(s *holdfastv1.StepStatus) bool { return runs.Skipped(s) }

// EvidenceDisks is the evidence key for the disks of a machine that is taken out: by which means
// they were erased, or that they were not.
const EvidenceDisks = runs.EvidenceDisks

// EvidenceEndpoint is the evidence key of a step net for the new address of the host.
const EvidenceEndpoint = runs.EvidenceEndpoint

// ReasonImageArch is the reason for refusing to install an image of another architecture.
const ReasonImageArch = runs.ReasonImageArch

// ReasonRunObserved is the reason for refusing executor commands for an observed run.
const ReasonRunObserved = runs.ReasonRunObserved

// CheckStartRun checks the parts of a start that need no state. It sets the canonical type
// and the default plan.
func CheckStartRun(c *internalv1.StartRun) *Error { return runs.CheckStartRun(c) }

// OwnLogBytes returns the length of a run's log without the bytes of others than the
// executor. It is the offset of the executor's next append.
func OwnLogBytes(run *holdfastv1.Run) int64 { return runs.OwnLogBytes(run) }

// Cohort identifies the runs that share a ramp. A defect of one of them probably affects all.
type Cohort = schema.Cohort

// CohortOf returns the cohort of a run.
func CohortOf(r *holdfastv1.Run) Cohort { return schema.CohortOf(r) }

// Ended reports whether a run is terminal.
func Ended(r *holdfastv1.Run) bool { return lifecycle.Ended(r) }

// Open reports whether an attempt has begun and not ended.
func Open(a *holdfastv1.Attempt) bool { return lifecycle.Open(a) }

// MaxRunLog bounds a run's log, in bytes. A log that reaches it ends with a chunk that
// reports the truncation.
const MaxRunLog = runlog.Max

// ReadLog returns the log in blocks of a run, as RunLog does.
func ReadLog(runID string, blocks iter.Seq[*internalv1.LogBlock], offset int64) iter.Seq[*holdfastv1.LogChunk] {
	return runlog.Read(runID, blocks, offset)
}
