package backup

import (
	"fmt"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/fsm/internal/core"
	"github.com/holdfast-metal/holdfast/fsm/internal/lifecycle"
	"github.com/holdfast-metal/holdfast/fsm/internal/runs"
	"github.com/holdfast-metal/holdfast/fsm/internal/schema"
	"github.com/holdfast-metal/holdfast/fsm/internal/table"
	"github.com/holdfast-metal/holdfast/fsm/internal/trail"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// merged returns the state after a restore (decision 0015). The description of the fleet
// comes from the snapshot. The parts that must not go back come from the present state:
//   - The time of the newest backup is that of the file.
//   - The cluster's id, epoch, leader, peers, feature level, autopilot rules and index are kept.
//     Epochs fence leaders, and peers have their own data.
//   - The record's time and the lease clock are the later ones. All leases count as renewed just
//     now, so that none expires because no peer was listening. Generations never decrease.
//   - Cursors of watchers continue above all that were ever issued, with a gap. A watcher that
//     resumes is asked to start from the present state.
//   - Request ids that were used since are kept if the snapshot is of this cluster, so that no
//     repeated request starts a second run.
//   - Outcomes of commands that may be delivered twice are forgotten. A second delivery of a
//     command before the restore is refused, since its effect may be gone.
//   - Tokens are kept if the snapshot is of this cluster: a token revoked since stays revoked. In
//     another cluster both the snapshot's tokens and the present ones are kept, because the
//     caller's own is one of them.
//   - Sessions of people are kept: one that was ended stays ended. Console sessions are kept if the
//     snapshot is of this cluster. Those of another cluster have ended.
//   - Notes on BMCs and hosts are kept if the snapshot is of this cluster, because they are newer.
//   - The audit trail is kept if the snapshot's is its beginning, so that a restore cannot erase
//     it. Otherwise the snapshot's is used, and the end of the present one is noted in it.
func merged(t *core.Tx, b *core.State, takenAt *timestamppb.Timestamp) *core.State {
	now, had := t.State, t.Meta
	m := proto.CloneOf(b.Meta)
	m.AppliedIndex, m.AppliedTerm = had.GetAppliedIndex(), had.GetAppliedTerm()
	m.ClusterId, m.FeatureLevel, m.Epoch, m.Leader, m.Autopilot = had.GetClusterId(), had.GetFeatureLevel(),
		had.GetEpoch(), had.GetLeader(), had.GetAutopilot()
	m.Bootstrapped = had.GetBootstrapped() || m.GetBootstrapped()
	if had.GetNow().AsTime().After(m.GetNow().AsTime()) {
		m.Now = had.GetNow()
	}
	m.Clock = had.GetClock()
	m.LastBackup = earlier(takenAt, m.GetNow()) // nothing newer is in that file
	m.LeaseClockMs = max(had.GetLeaseClockMs(), m.GetLeaseClockMs())
	m.EndedGeneration = max(had.GetEndedGeneration(), m.GetEndedGeneration())
	m.LastOutcome, m.ForgottenOutcome, m.OutcomeBytes = had.GetLastOutcome(), t.Index, 0
	m.LastRunEvent = max(had.GetLastRunEvent(), m.GetLastRunEvent()) + 1
	m.FirstRunEvent = m.GetLastRunEvent() + 1
	m.LastServiceEvent = max(had.GetLastServiceEvent(), m.GetLastServiceEvent()) + 1
	m.FirstServiceEvent = m.GetLastServiceEvent() + 1
	m.LastEvent = max(had.GetLastEvent(), m.GetLastEvent()) + 1
	m.FirstEvent = m.GetLastEvent() + 1

	s := b.Copy()
	s.Meta = m
	s.RunEvents, s.ServiceEvents = table.NewSequence(schema.RunEvents()), table.NewSequence(schema.ServiceEvents())
	s.Outcomes = table.New(schema.Outcomes())
	s.Events, s.Staged = table.NewSequence(schema.Events()), table.New(schema.Staged())
	for w := range b.Webhooks.Ascend("", "") {
		w = proto.CloneOf(w)
		w.Cursor = m.GetLastEvent()
		s.Webhooks.Put(w)
	}
	s.Peers, s.Admissions, s.Sessions = now.Peers.Copy(), now.Admissions.Copy(), now.Sessions.Copy()
	s.Leases = restoredLeases(t, now, b, m.GetLeaseClockMs())
	own := had.GetClusterId() == b.Meta.GetClusterId()
	if own {
		s.Tokens, s.SigningKeys, s.Devices = now.Tokens.Copy(), now.SigningKeys.Copy(), now.Devices.Copy()
		s.ConsoleSessions, s.ConsoleOutput = now.ConsoleSessions.Copy(), now.ConsoleOutput.Copy()
		m.ConsoleBytes = had.GetConsoleBytes()
		keepRequests(t, s, now, "a snapshot was restored that was taken before it started: look at the machine")
	} else {
		for tok := range now.Tokens.Ascend("", "") {
			s.Tokens.Put(tok)
		}
		if s.SigningKeys.Len() == 0 {
			s.SigningKeys = now.SigningKeys.Copy()
		}
	}
	if own && continues(now, b) {
		s.Audit = now.Audit.Copy()
		m.LastAudit, m.FirstAudit, m.AuditHash = had.GetLastAudit(), had.GetFirstAudit(), had.GetAuditHash()
	}
	return s
}

// continues reports whether the audit trail continues that of an earlier state.
func continues(s *core.State, earlier *core.State) bool {
	last := earlier.Meta.GetLastAudit()
	// The earlier trail is empty, or its newest event is no longer kept.
	if last == 0 || last < s.Meta.GetFirstAudit() {
		return last <= s.Meta.GetLastAudit()
	}
	e, ok := s.Audit.Get(last)
	return ok && string(e.GetHash()) == string(earlier.Meta.GetAuditHash())
}

// restoredLeases returns the snapshot's leases, all renewed at the present lease clock. A present
// lease that is not among them has ended with its owner, and is kept like other ended ones, so that
// its generation never goes down either.
func restoredLeases(t *core.Tx, now, b *core.State, clock int64) *table.Table[*internalv1.Lease] {
	out := table.New(schema.Leases())
	for l := range b.Leases.Ascend("", "") {
		l = proto.CloneOf(l)
		if have, ok := now.Leases.Get(schema.LeaseKey(l.GetRef())); ok {
			l.Ref.Generation = max(l.GetRef().GetGeneration(), have.GetRef().GetGeneration())
		}
		l.SeenMs, l.Revision = clock, t.Index
		out.Put(l)
	}
	for l := range now.Leases.Ascend("", "") {
		if !b.Leases.Has(schema.LeaseKey(l.GetRef())) {
			l = proto.CloneOf(l)
			l.Gone, l.ExpiredAt, l.Revision, l.Ready = true, t.Now, t.Index, false
			l.Metrics, l.AgentVersion = nil, ""
			out.Put(l)
		}
	}
	return out
}

// keepRequests keeps the request ids that were used since the snapshot was taken: otherwise a
// caller that repeats its request would erase a disk again. Each run becomes a record without steps
// and log, as if the archive no longer had them. One that was active has failed.
func keepRequests(t *core.Tx, s, now *core.State, why string) {
	for run := range now.Runs.Ascend("", "") {
		key := schema.RequestKey(run.GetMachineId(), run.GetRequestId())
		if _, known := s.Runs.Lookup(schema.RunsByRequest, key); known || s.Runs.Has(run.GetRunId()) {
			continue
		}
		run = proto.CloneOf(run)
		if !lifecycle.Ended(run) {
			run.Phase, run.FinishedAt = holdfastv1.Run_FAILED, t.Now
			run.Error = &holdfastv1.RunError{Reason: runs.ReasonRestored, Message: why, Step: run.GetCurrentStep()}
			run.Wait, run.Deadline, run.NextActionAt = nil, nil, nil
		}
		run.Steps, run.LogBytes, run.LogConcurrentBytes, run.LogTruncated, run.LogCompacted = nil, 0, 0, false, false
		run.Archive, run.Revision = &holdfastv1.RunArchive{ArchivedAt: t.Now, DroppedAt: t.Now}, t.Index
		s.Runs.Put(run)
		keepPlan(s, now, run.GetPlanId())
	}
}

// keepPlan keeps the plan of a kept run: it was run, so it must not be replaced.
func keepPlan(s, now *core.State, id string) {
	p, ok := s.Plans.Get(id)
	if !ok {
		p, ok = now.Plans.Get(id)
	}
	if ok && (!p.GetReferenced() || !s.Plans.Has(id)) {
		p = proto.CloneOf(p)
		p.Referenced, p.Brake, p.Held, p.Recent, p.Ramps = true, nil, nil, nil, nil
		s.Plans.Put(p)
	}
}

// noteReplacedTrail records the end of the audit trail that a restore has replaced in the
// trail that replaces it.
func noteReplacedTrail(t *core.Tx, had *internalv1.Meta) {
	trail.ChainAudit(t, &holdfastv1.AuditEvent{
		At:        t.Now,
		Principal: "system",
		Method:    "holdfast.v1.OperatorService/RestoreSnapshot",
		Resource:  fmt.Sprintf("audit/%d/%x", had.GetLastAudit(), had.GetAuditHash()),
		Reason:    "REPLACED_TRAIL",
		Outcome:   trail.AuditOK,
		Count:     1,
	})
}
