package core

import (
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/fsm/internal/schema"
	"github.com/holdfast-metal/holdfast/fsm/internal/table"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// State is the replicated state.
type State struct {
	Meta            *internalv1.Meta
	Machines        *table.Table[*holdfastv1.Machine]
	Hardware        *table.Table[*internalv1.MachineHardware]
	Devices         *table.Table[*internalv1.DeviceNote]
	Plans           *table.Table[*holdfastv1.Plan]
	Runs            *table.Table[*holdfastv1.Run]
	History         *table.Table[*holdfastv1.HistoryEntry]
	RunEvents       *table.Sequence[*holdfastv1.RunEvent]
	Logs            *table.Table[*internalv1.StoredLog]
	Peers           *table.Table[*internalv1.PeerRecord]
	Admissions      *table.Table[*internalv1.PeerAdmission]
	Tokens          *table.Table[*internalv1.StoredToken]
	Secrets         *table.Table[*internalv1.StoredSecret]
	SigningKeys     *table.Table[*internalv1.SigningKey]
	Sessions        *table.Table[*holdfastv1.Session]
	ConsoleSessions *table.Table[*holdfastv1.ConsoleSession]
	ConsoleOutput   *table.Table[*internalv1.StoredOutput]
	Audit           *table.Sequence[*holdfastv1.AuditEvent]
	Leases          *table.Table[*internalv1.Lease]
	Pools           *table.Table[*holdfastv1.Pool]
	Providers       *table.Table[*holdfastv1.PlatformProvider]
	Services        *table.Table[*holdfastv1.Service]
	ServiceEvents   *table.Sequence[*holdfastv1.ServiceEvent]
	Staged          *table.Table[*internalv1.StagedChunk]
	Installs        *table.Table[*internalv1.StoredInstall]
	Images          *table.Table[*holdfastv1.Image]
	Events          *table.Sequence[*holdfastv1.Event]
	Webhooks        *table.Table[*holdfastv1.Webhook]
	Waves           *table.Table[*holdfastv1.Wave]
	WaveMembers     *table.Table[*internalv1.WaveMember]
	Outcomes        *table.Table[*internalv1.StoredOutcome]
	all             []tableDecl // of the tables above
}

// tableList declares the tables of a new state, in the order of a snapshot.
func tableList() []tableDecl {
	return []tableDecl{
		declare(table.New(schema.Machines()),
			func(s *State) **table.Table[*holdfastv1.Machine] { return &s.Machines }),
		declare(table.New(schema.Plans()), func(s *State) **table.Table[*holdfastv1.Plan] { return &s.Plans }),
		declare(table.New(schema.Runs()), func(s *State) **table.Table[*holdfastv1.Run] { return &s.Runs }),
		declare(table.New(schema.History()),
			func(s *State) **table.Table[*holdfastv1.HistoryEntry] { return &s.History }),
		declare(table.NewSequence(schema.RunEvents()),
			func(s *State) **table.Sequence[*holdfastv1.RunEvent] { return &s.RunEvents }),
		declare(table.New(schema.RunLogs()), func(s *State) **table.Table[*internalv1.StoredLog] { return &s.Logs }),
		declare(table.New(schema.Peers()), func(s *State) **table.Table[*internalv1.PeerRecord] { return &s.Peers }),
		declare(table.New(schema.Admissions()),
			func(s *State) **table.Table[*internalv1.PeerAdmission] { return &s.Admissions }),
		declare(table.New(schema.Tokens()),
			func(s *State) **table.Table[*internalv1.StoredToken] { return &s.Tokens }),
		declare(table.New(schema.Secrets()),
			func(s *State) **table.Table[*internalv1.StoredSecret] { return &s.Secrets }),
		declare(table.New(schema.SigningKeys()),
			func(s *State) **table.Table[*internalv1.SigningKey] { return &s.SigningKeys }),
		declare(table.New(schema.Sessions()),
			func(s *State) **table.Table[*holdfastv1.Session] { return &s.Sessions }),
		declare(table.New(schema.ConsoleSessions()),
			func(s *State) **table.Table[*holdfastv1.ConsoleSession] { return &s.ConsoleSessions }),
		declare(table.New(schema.ConsoleOutput()),
			func(s *State) **table.Table[*internalv1.StoredOutput] { return &s.ConsoleOutput }),
		declare(table.NewSequence(schema.Audit()),
			func(s *State) **table.Sequence[*holdfastv1.AuditEvent] { return &s.Audit }),
		declare(table.New(schema.Leases()), func(s *State) **table.Table[*internalv1.Lease] { return &s.Leases }),
		declare(table.New(schema.Installs()),
			func(s *State) **table.Table[*internalv1.StoredInstall] { return &s.Installs }),
		declare(table.New(schema.Pools()), func(s *State) **table.Table[*holdfastv1.Pool] { return &s.Pools }),
		declare(table.New(schema.Providers()),
			func(s *State) **table.Table[*holdfastv1.PlatformProvider] { return &s.Providers }),
		declare(table.New(schema.Services()),
			func(s *State) **table.Table[*holdfastv1.Service] { return &s.Services }),
		declare(table.NewSequence(schema.ServiceEvents()),
			func(s *State) **table.Sequence[*holdfastv1.ServiceEvent] { return &s.ServiceEvents }),
		declare(table.New(schema.Devices()),
			func(s *State) **table.Table[*internalv1.DeviceNote] { return &s.Devices }),
		declare(table.New(schema.Hardware()),
			func(s *State) **table.Table[*internalv1.MachineHardware] { return &s.Hardware }),
		declare(table.New(schema.Images()), func(s *State) **table.Table[*holdfastv1.Image] { return &s.Images }),
		declare(table.NewSequence(schema.Events()),
			func(s *State) **table.Sequence[*holdfastv1.Event] { return &s.Events }),
		declare(table.New(schema.Webhooks()),
			func(s *State) **table.Table[*holdfastv1.Webhook] { return &s.Webhooks }),
		declare(table.New(schema.Waves()), func(s *State) **table.Table[*holdfastv1.Wave] { return &s.Waves }),
		declare(table.New(schema.WaveMembers()),
			func(s *State) **table.Table[*internalv1.WaveMember] { return &s.WaveMembers }),
		declare(table.New(schema.Outcomes()),
			func(s *State) **table.Table[*internalv1.StoredOutcome] { return &s.Outcomes }),
		declare(table.New(schema.Staged()),
			func(s *State) **table.Table[*internalv1.StagedChunk] { return &s.Staged }),
	}
}

// tableDecl declares one table.
type tableDecl struct {
	attach func(s *State) // the empty table
	freeze func(to, from, since *State)
	rows   func(s *State) table.Rows
}

func declare[T interface {
	table.Rows
	Freeze(since T) T
}](empty T, field func(*State) *T) tableDecl {
	return tableDecl{
		attach: func(s *State) { *field(s) = empty },
		freeze: func(to, from, since *State) { *field(to) = (*field(from)).Freeze(*field(since)) },
		rows:   func(s *State) table.Rows { return *field(s) },
	}
}

// NewState returns an empty state.
func NewState() *State {
	s := &State{Meta: &internalv1.Meta{FeatureLevel: 1}, all: tableList()}
	for _, t := range s.all {
		t.attach(s)
	}
	return s
}

// Guard makes all tables panic if a message that is stored from now on was changed. It is for
// tests.
func (s *State) Guard() {
	for _, t := range s.Tables() {
		t.Guard()
	}
}

// Copy returns a writable copy that later writes to s do not affect.
func (s *State) Copy() *State { return s.Freeze(&State{}) }

// Freeze returns a read-only copy that later writes to s do not affect. It shares the tables
// of since, an earlier copy, that have not changed.
func (s *State) Freeze(since *State) *State {
	frozen := &State{Meta: proto.CloneOf(s.Meta), all: s.all}
	for _, t := range s.all {
		t.freeze(frozen, s, since)
	}
	return frozen
}

// Tables returns all tables in the order of a snapshot.
func (s *State) Tables() []table.Rows {
	var all []table.Rows
	for _, t := range s.all {
		all = append(all, t.rows(s))
	}
	return all
}
