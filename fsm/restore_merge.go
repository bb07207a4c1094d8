package fsm

import (
	"fmt"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// merged makes the state after a restore (decision 0015): what describes the fleet is the
// snapshot's; what must not go back is the present state's.
//
//   - The time of the newest backup is that of the file.
//   - The cluster: its id, epoch, leader, peers, feature level, autopilot's rules, and the index.
//     Epochs fence leaders, and peers have their own data.
//   - Clocks: the record's time and the lease clock are the later ones. All leases count as heard
//     just now, so that none expires for what was not heard while nobody listened; their
//     generations never go down.
//   - Cursors of watchers go on above all that were ever given out, with a gap: whoever resumes is
//     told to start from the present state.
//   - Who may call, when the snapshot is of this cluster: a token that was revoked since stays so.
//     Into another cluster the snapshot's tokens come along, and this cluster's stay: the caller's
//     own is one.
//   - What a leader has learned of BMCs and hosts, when the snapshot is of this cluster: it is
//     newer.
//   - The audit trail, when the snapshot's is the beginning of it: nobody gets rid of it by a
//     restore. Else the snapshot's is taken, and the end of the present one is noted in it.
func (t *tx) merged(b *state, takenAt *timestamppb.Timestamp) *state {
	now, had := t.state, t.meta
	m := proto.CloneOf(b.meta)
	m.AppliedIndex, m.AppliedTerm = had.GetAppliedIndex(), had.GetAppliedTerm()
	m.ClusterId, m.FeatureLevel, m.Epoch, m.Leader, m.Autopilot = had.GetClusterId(), had.GetFeatureLevel(), had.GetEpoch(), had.GetLeader(), had.GetAutopilot()
	m.Bootstrapped = had.GetBootstrapped() || m.GetBootstrapped()
	if had.GetNow().AsTime().After(m.GetNow().AsTime()) {
		m.Now = had.GetNow()
	}
	m.Clock = had.GetClock()
	m.LastBackup = earlier(takenAt, m.GetNow()) // what is restored lies in that file, and nothing newer does
	m.LeaseClockMs = max(had.GetLeaseClockMs(), m.GetLeaseClockMs())
	m.LastEvent = max(had.GetLastEvent(), m.GetLastEvent()) + 1
	m.FirstEvent = m.GetLastEvent() + 1
	m.LastServiceEvent = max(had.GetLastServiceEvent(), m.GetLastServiceEvent()) + 1
	m.FirstServiceEvent = m.GetLastServiceEvent() + 1
	m.LastNews = max(had.GetLastNews(), m.GetLastNews()) + 1
	m.FirstNews = m.GetLastNews() + 1

	s := b.copy()
	s.meta = m
	s.events, s.serviceEvents, s.staged = newTable(eventSchema()), newTable(serviceEventSchema()), newTable(stageSchema())
	s.news = newTable(newsSchema())
	for w := range b.webhooks.ascend("", "") {
		w.Cursor = m.GetLastNews()
		s.webhooks.put(w)
	}
	s.peers = now.peers.copy()
	s.leases = t.restoredLeases(now, b, m.GetLeaseClockMs())
	own := had.GetClusterId() == b.meta.GetClusterId()
	if own {
		s.tokens, s.signingKeys, s.devices = now.tokens.copy(), now.signingKeys.copy(), now.devices.copy()
	} else {
		for tok := range now.tokens.ascend("", "") {
			s.tokens.put(tok)
		}
		if s.signingKeys.len() == 0 {
			s.signingKeys = now.signingKeys.copy()
		}
	}
	if own && now.continues(b) {
		s.audit = now.audit.copy()
		m.LastAudit, m.FirstAudit, m.AuditHash = had.GetLastAudit(), had.GetFirstAudit(), had.GetAuditHash()
	}
	return s
}

// continues reports whether the audit trail is that of an earlier state, gone on.
func (s *state) continues(earlier *state) bool {
	last := earlier.meta.GetLastAudit()
	if last == 0 || last < s.meta.GetFirstAudit() { // it had none, or its newest is not kept any more
		return last <= s.meta.GetLastAudit()
	}
	e, ok := s.audit.get(ordered(last))
	return ok && string(e.GetHash()) == string(earlier.meta.GetAuditHash())
}

// restoredLeases returns the snapshot's leases, all heard at the present lease clock.
func (t *tx) restoredLeases(now, b *state, clock int64) *table[*internalv1.Lease] {
	out := newTable(leaseSchema())
	for l := range b.leases.ascend("", "") {
		if have, ok := now.leases.get(leaseKey(l.GetRef())); ok {
			l.Ref.Generation = max(l.GetRef().GetGeneration(), have.GetRef().GetGeneration())
		}
		l.SeenMs, l.Revision = clock, t.index
		out.put(l)
	}
	return out
}

// noteReplacedTrail writes the end of the audit trail that a restore has replaced into the one that
// takes its place.
func (t *tx) noteReplacedTrail(had *internalv1.Meta) {
	t.chainAudit(&holdfastv1.AuditEvent{At: t.now, Principal: "system", Method: "holdfast.v1.OperatorService/RestoreSnapshot",
		Resource: fmt.Sprintf("audit/%d/%x", had.GetLastAudit(), had.GetAuditHash()), Reason: "REPLACED_TRAIL", Outcome: auditOK, Count: 1})
}
