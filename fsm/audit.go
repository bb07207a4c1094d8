package fsm

import (
	"iter"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/fsm/internal/lex"
	"github.com/holdfast-metal/holdfast/fsm/internal/schema"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// maxAudit bounds the number of audit events kept: about 80 MB. It is a constant because
// every peer must keep the same events.
const maxAudit = 1 << 18

// MaxDenials is the maximum number of events in one RecordDenials.
const MaxDenials = 1000

// maxAuditText bounds the texts of an event besides principal and resource, in bytes. Callers
// choose most of them.
const maxAuditText = 128

// auditOK is the outcome of a command that was not refused.
const auditOK = "OK"

// addAudit records a call and its result, once for each command that has an origin. A replay
// is a call too.
func (t *tx) addAudit(resource string, value proto.Message, err *Error) {
	o := t.cmd.GetOrigin()
	e := &holdfastv1.AuditEvent{
		At:        t.now,
		Principal: t.cmd.GetPrincipal(),
		Source:    o.GetSource(),
		Peer:      o.GetPeer(),
		Method:    o.GetMethod(),
		Resource:  resource,
		RequestId: o.GetRequestId(),
		TokenId:   o.GetTokenId(),
		Outcome:   auditOK,
		Count:     1,
	}
	if err != nil {
		e.Outcome, e.Reason = err.Code.String(), err.Reason
	}
	if r := made(value); r != "" {
		e.Resource = r
	}
	if e.GetRequestId() == "" {
		e.RequestId = t.cmd.GetStartRun().GetRequestId()
	}
	t.chainAudit(e)
}

// made returns the resource that a command has made, if the command does not determine its
// id.
func made(value proto.Message) string {
	if run, ok := value.(*holdfastv1.Run); ok && run != nil {
		return "machines/" + run.GetMachineId() + "/runs/" + run.GetRunId()
	}
	return ""
}

// chainAudit appends an event to the chain. Sequences count from 1 without a gap, and each
// hash covers the previous one. That proves that no event is missing.
func (t *tx) chainAudit(e *holdfastv1.AuditEvent) {
	for _, s := range []*string{&e.Source, &e.Peer, &e.Method, &e.RequestId, &e.Outcome, &e.Reason} {
		*s = lex.Clip(*s, maxAuditText)
	}
	if e.GetTokenId() != "" {
		e.TokenId = lex.Ident(e.GetTokenId())
	}
	e.Principal, e.Resource = lex.Clip(e.GetPrincipal(), maxAuditThing), lex.Clip(e.GetResource(), maxAuditThing)
	t.meta.LastAudit++
	e.Sequence, e.Index, e.PreviousHash = t.meta.GetLastAudit(), t.index, t.meta.GetAuditHash()
	e.Hash = holdfastv1.AuditHash(e)
	t.meta.AuditHash = e.GetHash()
	t.state.audit.Put(e)
	if t.meta.GetFirstAudit() == 0 {
		t.meta.FirstAudit = 1
	}
	for ; t.meta.GetLastAudit()-t.meta.GetFirstAudit() >= maxAudit; t.meta.FirstAudit++ {
		t.state.audit.Delete(schema.Ordered(t.meta.GetFirstAudit()))
	}
}

// recordDenials records calls that were refused before they became commands, by policy or
// because the caller is unknown. Their outcome cannot be OK, so they cannot claim that
// something was done.
func (t *tx) recordDenials(c *internalv1.RecordDenials) *Error {
	if n := len(c.GetEvents()); n > MaxDenials {
		return invalid("events", "are %d, at most %d are allowed", n, MaxDenials)
	}
	for i, e := range c.GetEvents() {
		if o := e.GetOutcome(); o == "" || o == auditOK {
			return invalid("events", "event %d has outcome %q: a denial names the code of the refusal", i, o)
		}
	}
	for _, e := range c.GetEvents() {
		at := e.GetAt()
		if !at.IsValid() || at.AsTime().After(t.now.AsTime()) {
			at = t.now
		}
		t.chainAudit(&holdfastv1.AuditEvent{
			At:        at,
			Principal: e.GetPrincipal(),
			Source:    e.GetSource(),
			Peer:      e.GetPeer(),
			Method:    e.GetMethod(),
			Resource:  e.GetResource(),
			RequestId: e.GetRequestId(),
			TokenId:   e.GetTokenId(),
			Outcome:   e.GetOutcome(),
			Reason:    e.GetReason(),
			Count:     max(1, e.GetCount()),
		})
	}
	return nil
}

// Audit returns the sequences of the oldest and the newest audit event kept, and the hash of
// the newest. All are zero if there is none.
func (v *View) Audit() (first, last uint64, hash []byte) {
	return v.meta.GetFirstAudit(), v.meta.GetLastAudit(), append([]byte(nil), v.meta.GetAuditHash()...)
}

// AuditEvents returns the audit events below a sequence number, newest first. If before is
// zero, it starts at the newest.
func (v *View) AuditEvents(before uint64) iter.Seq[*holdfastv1.AuditEvent] {
	if before == 0 {
		before = ^uint64(0)
	}
	return v.audit.Descend("", schema.Ordered(before))
}

// AuditAfter returns at most limit audit events above a sequence number, oldest first. If seq
// is zero, it starts at the oldest event kept. A number that is too old to resume from, or
// that was never issued, is OutOfRange: a gap would be mistaken for a broken chain.
func (v *View) AuditAfter(seq uint64, limit int) ([]*holdfastv1.AuditEvent, error) {
	first, last := v.meta.GetFirstAudit(), v.meta.GetLastAudit()
	if seq > 0 && (seq+1 < first || seq > last) {
		return nil, refuse(OutOfRange, ReasonCursorGone,
			"audit event %d is not kept: events %d to %d are; start without a number to read all of them",
			seq, first, last)
	}
	var es []*holdfastv1.AuditEvent
	for e := range v.audit.Ascend("", schema.Ordered(seq)) {
		if len(es) == limit {
			break
		}
		es = append(es, e)
	}
	return es, nil
}

// These functions return the subjects of commands. A command without machines and pools (plans,
// tokens, secrets, services, the cluster) is refused to callers that are limited to pools.

// byName returns a function for commands about one record that they name.
func byName[C any](kind string, name func(C) string) func(*tx, C) subject {
	return func(_ *tx, c C) subject { return named(kind, name(c)) }
}

// whole returns a function for commands about everything of a kind.
func whole[C any](kind string) func(*tx, C) subject {
	return func(*tx, C) subject { return subject{resource: kind} }
}

func ofCluster[C any](*tx, C) subject { return subject{resource: "cluster"} }

func ofMachine[C interface{ GetMachineId() string }](_ *tx, c C) subject {
	return machineSubject(c.GetMachineId())
}

func ofNode[C interface{ GetId() string }](t *tx, c C) subject {
	return machineSubject(t.nodeID(c.GetId()))
}

func ofRun[C interface{ GetRunId() string }](_ *tx, c C) subject { return named("runs", c.GetRunId()) }

func ofRunsMachine[C interface{ GetRunId() string }](t *tx, c C) subject {
	return t.runSubject(c.GetRunId())
}

func ofPlan[C interface{ GetPlanId() string }](_ *tx, c C) subject {
	return named("plans", c.GetPlanId())
}

func ofPool[C interface{ GetPoolId() string }](_ *tx, c C) subject { return poolSubject(c.GetPoolId()) }

func ofNewPool[C interface{ GetPool() *holdfastv1.Pool }](_ *tx, c C) subject {
	return poolSubject(c.GetPool().GetPoolId())
}

func ofRestore[C interface{ GetRestoreId() string }](_ *tx, c C) subject {
	return named("snapshots", c.GetRestoreId())
}

// ofInstaller returns the machine of the installer's token.
func ofInstaller[C interface{ GetSha256() []byte }](t *tx, c C) subject {
	if s, _, ok := t.installByToken(c.GetSha256()); ok {
		return machineSubject(s.GetInstall().GetMachineId())
	}
	return named("installs", "?")
}

func ofRegistration(t *tx, c *internalv1.RegisterMachine) subject {
	in := c.GetMachine()
	return t.inventorySubject(in, func(m *holdfastv1.Machine) *Error {
		if in.GetSpec() != nil {
			m.Spec = in.GetSpec()
		}
		if len(in.GetLabels()) > 0 {
			m.Labels = in.GetLabels() // they may contain the provider
		}
		return nil
	})
}

func ofUpdate(t *tx, c *internalv1.UpdateMachine) subject {
	in := c.GetMachine()
	return t.inventorySubject(in, func(m *holdfastv1.Machine) *Error {
		return t.mergeMachine(m, in, c.GetPaths())
	})
}

func ofAgentMachine(t *tx, c *internalv1.CreateAgentMachine) subject {
	return t.newMachine(c.GetMachineId(), c.GetPool())
}

func ofAgent(t *tx, c *internalv1.RegisterAgent) subject {
	in := c.GetAgent()
	if _, ok := t.poolOpen(in.GetPoolName()); !ok { // the command has the right error
		return machineSubject(in.GetMachineId())
	}
	return t.newMachine(in.GetMachineId(), in.GetPoolName())
}

func ofNewNode(t *tx, c *internalv1.CreateNode) subject { return t.newMachine(c.GetMachineId(), "") }

func ofReport(t *tx, c *internalv1.ReportNode) subject {
	if id := t.nodeID(c.GetReport().GetMacAddress()); t.machines.Has(id) {
		return machineSubject(id)
	}
	return t.newMachine(c.GetMachineId(), "") // the machine is discovered
}

func ofProvider(t *tx, c *internalv1.RegisterProvider) subject {
	return t.providerSubject(c.GetProvider())
}

func ofDeletedProvider(t *tx, c *internalv1.DeleteProvider) subject {
	return t.providerSubject(&holdfastv1.PlatformProvider{ProviderId: c.GetProviderId()})
}

func ofService(_ *tx, c *internalv1.RegisterService) subject {
	if id := c.GetTarget().GetId(); id != "" {
		return named("services", id)
	}
	return named("services", c.GetNewId())
}

func ofDeregistered(_ *tx, c *internalv1.DeregisterService) subject {
	if id := c.GetId(); id != "" {
		return named("services", id)
	}
	return named("services", c.GetTarget().GetId())
}

func ofBackup(_ *tx, c *internalv1.NoteBackup) subject {
	if member := c.GetMember(); member != "" {
		return named("peers", member)
	}
	if c.GetMembers() {
		return subject{resource: "peers"}
	}
	return subject{resource: "snapshots"}
}

// nodeID returns the machine that a node's id refers to, which may be a machine id or a MAC
// address.
func (t *tx) nodeID(id string) string {
	if mac, ok := lex.MAC(id); ok && !t.machines.Has(id) {
		if m, ok := t.machines.Lookup(schema.MachinesByOwned, "MAC address "+mac); ok {
			return m.GetMachineId()
		}
	}
	return id
}
