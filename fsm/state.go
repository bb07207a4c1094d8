package fsm

import (
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/fsm/internal/schema"
	"github.com/holdfast-metal/holdfast/fsm/internal/table"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// state is the replicated state.
type state struct {
	meta          *internalv1.Meta
	machines      *table.Table[*holdfastv1.Machine]
	hardware      *table.Table[*internalv1.MachineHardware]
	devices       *table.Table[*internalv1.DeviceNote]
	plans         *table.Table[*holdfastv1.Plan]
	runs          *table.Table[*holdfastv1.Run]
	history       *table.Table[*holdfastv1.HistoryEntry]
	events        *table.Table[*holdfastv1.RunEvent]
	logs          *table.Table[*internalv1.StoredLog]
	peers         *table.Table[*internalv1.PeerRecord]
	tokens        *table.Table[*internalv1.StoredToken]
	secrets       *table.Table[*internalv1.StoredSecret]
	signingKeys   *table.Table[*internalv1.SigningKey]
	audit         *table.Table[*holdfastv1.AuditEvent]
	leases        *table.Table[*internalv1.Lease]
	pools         *table.Table[*holdfastv1.Pool]
	providers     *table.Table[*holdfastv1.PlatformProvider]
	services      *table.Table[*holdfastv1.Service]
	serviceEvents *table.Table[*holdfastv1.ServiceEvent]
	staged        *table.Table[*internalv1.StagedChunk]
	installs      *table.Table[*internalv1.StoredInstall]
	images        *table.Table[*holdfastv1.Image]
	news          *table.Table[*holdfastv1.Event]
	webhooks      *table.Table[*holdfastv1.Webhook]
	all           []tableDecl // of the tables above
}

// tableList declares the tables of a new state, in the order of a snapshot.
func tableList() []tableDecl {
	return []tableDecl{
		declareTable(table.New(schema.Machines()),
			func(s *state) **table.Table[*holdfastv1.Machine] { return &s.machines }),
		declareTable(table.New(schema.Plans()), func(s *state) **table.Table[*holdfastv1.Plan] { return &s.plans }),
		declareTable(table.New(schema.Runs()), func(s *state) **table.Table[*holdfastv1.Run] { return &s.runs }),
		declareTable(table.New(schema.History()),
			func(s *state) **table.Table[*holdfastv1.HistoryEntry] { return &s.history }),
		declareTable(table.New(schema.RunEvents()),
			func(s *state) **table.Table[*holdfastv1.RunEvent] { return &s.events }),
		declareTable(table.New(schema.RunLogs()), func(s *state) **table.Table[*internalv1.StoredLog] { return &s.logs }),
		declareTable(table.New(schema.Peers()), func(s *state) **table.Table[*internalv1.PeerRecord] { return &s.peers }),
		declareTable(table.New(schema.Tokens()),
			func(s *state) **table.Table[*internalv1.StoredToken] { return &s.tokens }),
		declareTable(table.New(schema.Secrets()),
			func(s *state) **table.Table[*internalv1.StoredSecret] { return &s.secrets }),
		declareTable(table.New(schema.SigningKeys()),
			func(s *state) **table.Table[*internalv1.SigningKey] { return &s.signingKeys }),
		declareTable(table.New(schema.Audit()), func(s *state) **table.Table[*holdfastv1.AuditEvent] { return &s.audit }),
		declareTable(table.New(schema.Leases()), func(s *state) **table.Table[*internalv1.Lease] { return &s.leases }),
		declareTable(table.New(schema.Installs()),
			func(s *state) **table.Table[*internalv1.StoredInstall] { return &s.installs }),
		declareTable(table.New(schema.Pools()), func(s *state) **table.Table[*holdfastv1.Pool] { return &s.pools }),
		declareTable(table.New(schema.Providers()),
			func(s *state) **table.Table[*holdfastv1.PlatformProvider] { return &s.providers }),
		declareTable(table.New(schema.Services()),
			func(s *state) **table.Table[*holdfastv1.Service] { return &s.services }),
		declareTable(table.New(schema.ServiceEvents()),
			func(s *state) **table.Table[*holdfastv1.ServiceEvent] { return &s.serviceEvents }),
		declareTable(table.New(schema.Devices()),
			func(s *state) **table.Table[*internalv1.DeviceNote] { return &s.devices }),
		declareTable(table.New(schema.Hardware()),
			func(s *state) **table.Table[*internalv1.MachineHardware] { return &s.hardware }),
		declareTable(table.New(schema.Images()), func(s *state) **table.Table[*holdfastv1.Image] { return &s.images }),
		declareTable(table.New(schema.News()), func(s *state) **table.Table[*holdfastv1.Event] { return &s.news }),
		declareTable(table.New(schema.Webhooks()),
			func(s *state) **table.Table[*holdfastv1.Webhook] { return &s.webhooks }),
		declareTable(table.New(schema.Staged()),
			func(s *state) **table.Table[*internalv1.StagedChunk] { return &s.staged }),
	}
}

// tableDecl declares one table.
type tableDecl struct {
	attach func(s *state) // the empty table
	freeze func(to, from, since *state)
	rows   func(s *state) *table.Rowset
}

func declareTable[P proto.Message](empty *table.Table[P], field func(*state) **table.Table[P]) tableDecl {
	return tableDecl{
		attach: func(s *state) { *field(s) = empty },
		freeze: func(to, from, since *state) { *field(to) = (*field(from)).Freeze(*field(since)) },
		rows:   func(s *state) *table.Rowset { return (*field(s)).Rowset },
	}
}

func newState() *state {
	s := &state{meta: &internalv1.Meta{FeatureLevel: 1}, all: tableList()}
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
	frozen := &state{meta: proto.CloneOf(s.meta), all: s.all}
	for _, t := range s.all {
		t.freeze(frozen, s, since)
	}
	return frozen
}

// tables returns all tables in the order of a snapshot.
func (s *state) tables() []*table.Rowset {
	var all []*table.Rowset
	for _, t := range s.all {
		all = append(all, t.rows(s))
	}
	return all
}
