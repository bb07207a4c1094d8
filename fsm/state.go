package fsm

import (
	"google.golang.org/protobuf/proto"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// state is the replicated state.
type state struct {
	meta          *internalv1.Meta
	machines      *table[*holdfastv1.Machine]
	hardware      *table[*internalv1.MachineHardware]
	devices       *table[*internalv1.DeviceNote]
	plans         *table[*holdfastv1.Plan]
	runs          *table[*holdfastv1.Run]
	history       *table[*holdfastv1.HistoryEntry]
	events        *table[*holdfastv1.RunEvent]
	logs          *table[*internalv1.StoredLog]
	peers         *table[*internalv1.PeerRecord]
	tokens        *table[*internalv1.StoredToken]
	secrets       *table[*internalv1.StoredSecret]
	signingKeys   *table[*internalv1.SigningKey]
	audit         *table[*holdfastv1.AuditEvent]
	leases        *table[*internalv1.Lease]
	pools         *table[*holdfastv1.Pool]
	providers     *table[*holdfastv1.PlatformProvider]
	services      *table[*holdfastv1.Service]
	serviceEvents *table[*holdfastv1.ServiceEvent]
	staged        *table[*internalv1.StagedChunk]
	installs      *table[*internalv1.StoredInstall]
	images        *table[*holdfastv1.Image]
	news          *table[*holdfastv1.Event]
	webhooks      *table[*holdfastv1.Webhook]
	all           []tableDecl // of the tables above
	read          *readStage  // a cache of the staged file, not replicated
}

// tableList declares the tables of a new state, in the order of a snapshot.
func tableList() []tableDecl {
	return []tableDecl{
		declareTable(newTable(machineSchema()), func(s *state) **table[*holdfastv1.Machine] { return &s.machines }),
		declareTable(newTable(planSchema()), func(s *state) **table[*holdfastv1.Plan] { return &s.plans }),
		declareTable(newTable(runSchema()), func(s *state) **table[*holdfastv1.Run] { return &s.runs }),
		declareTable(newTable(historySchema()), func(s *state) **table[*holdfastv1.HistoryEntry] { return &s.history }),
		declareTable(newTable(eventSchema()), func(s *state) **table[*holdfastv1.RunEvent] { return &s.events }),
		declareTable(newTable(logSchema()), func(s *state) **table[*internalv1.StoredLog] { return &s.logs }),
		declareTable(newTable(peerSchema()), func(s *state) **table[*internalv1.PeerRecord] { return &s.peers }),
		declareTable(newTable(tokenSchema()), func(s *state) **table[*internalv1.StoredToken] { return &s.tokens }),
		declareTable(newTable(secretSchema()), func(s *state) **table[*internalv1.StoredSecret] { return &s.secrets }),
		declareTable(newTable(signingKeySchema()), func(s *state) **table[*internalv1.SigningKey] { return &s.signingKeys }),
		declareTable(newTable(auditSchema()), func(s *state) **table[*holdfastv1.AuditEvent] { return &s.audit }),
		declareTable(newTable(leaseSchema()), func(s *state) **table[*internalv1.Lease] { return &s.leases }),
		declareTable(newTable(installSchema()), func(s *state) **table[*internalv1.StoredInstall] { return &s.installs }),
		declareTable(newTable(poolSchema()), func(s *state) **table[*holdfastv1.Pool] { return &s.pools }),
		declareTable(newTable(providerSchema()),
			func(s *state) **table[*holdfastv1.PlatformProvider] { return &s.providers }),
		declareTable(newTable(serviceSchema()), func(s *state) **table[*holdfastv1.Service] { return &s.services }),
		declareTable(newTable(serviceEventSchema()),
			func(s *state) **table[*holdfastv1.ServiceEvent] { return &s.serviceEvents }),
		declareTable(newTable(deviceSchema()), func(s *state) **table[*internalv1.DeviceNote] { return &s.devices }),
		declareTable(newTable(hardwareSchema()), func(s *state) **table[*internalv1.MachineHardware] { return &s.hardware }),
		declareTable(newTable(imageSchema()), func(s *state) **table[*holdfastv1.Image] { return &s.images }),
		declareTable(newTable(newsSchema()), func(s *state) **table[*holdfastv1.Event] { return &s.news }),
		declareTable(newTable(webhookSchema()), func(s *state) **table[*holdfastv1.Webhook] { return &s.webhooks }),
		declareTable(newTable(stageSchema()), func(s *state) **table[*internalv1.StagedChunk] { return &s.staged }),
	}
}

// tableDecl declares one table.
type tableDecl struct {
	attach func(s *state) // the empty table
	freeze func(to, from, since *state)
	rows   func(s *state) *rowset
}

func declareTable[P proto.Message](empty *table[P], field func(*state) **table[P]) tableDecl {
	return tableDecl{
		attach: func(s *state) { *field(s) = empty },
		freeze: func(to, from, since *state) { *field(to) = (*field(from)).freeze(*field(since)) },
		rows:   func(s *state) *rowset { return (*field(s)).rowset },
	}
}

func newState() *state {
	s := &state{meta: &internalv1.Meta{FeatureLevel: 1}, all: tableList(), read: &readStage{}}
	for _, t := range s.all {
		t.attach(s)
	}
	return s
}

// copy returns a writable copy that later writes to s do not affect.
func (s *state) copy() *state { return s.freeze(&state{}) }

// freeze returns a read-only copy that later writes to s do not affect. It shares the tables
// of since, an earlier copy, that have not changed.
func (s *state) freeze(since *state) *state {
	frozen := &state{meta: proto.CloneOf(s.meta), all: s.all, read: s.read}
	for _, t := range s.all {
		t.freeze(frozen, s, since)
	}
	return frozen
}

// tables returns all tables in the order of a snapshot.
func (s *state) tables() []*rowset {
	var all []*rowset
	for _, t := range s.all {
		all = append(all, t.rows(s))
	}
	return all
}
