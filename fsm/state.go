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
	read          *readStage // a cache of the staged file, not replicated
}

func newState() *state {
	return &state{
		meta:          &internalv1.Meta{FeatureLevel: 1},
		machines:      newTable(machineSchema()),
		hardware:      newTable(hardwareSchema()),
		devices:       newTable(deviceSchema()),
		plans:         newTable(planSchema()),
		runs:          newTable(runSchema()),
		history:       newTable(historySchema()),
		events:        newTable(eventSchema()),
		logs:          newTable(logSchema()),
		peers:         newTable(peerSchema()),
		tokens:        newTable(tokenSchema()),
		secrets:       newTable(secretSchema()),
		signingKeys:   newTable(signingKeySchema()),
		audit:         newTable(auditSchema()),
		leases:        newTable(leaseSchema()),
		pools:         newTable(poolSchema()),
		providers:     newTable(providerSchema()),
		services:      newTable(serviceSchema()),
		serviceEvents: newTable(serviceEventSchema()),
		staged:        newTable(stageSchema()),
		installs:      newTable(installSchema()),
		images:        newTable(imageSchema()),
		news:          newTable(newsSchema()),
		webhooks:      newTable(webhookSchema()),
		read:          &readStage{},
	}
}

// copy returns a writable copy that later writes to s do not affect.
func (s *state) copy() *state { return s.freeze(&state{}) }

// freeze returns a read-only copy that later writes to s do not affect. It shares the tables
// of since, an earlier copy, that have not changed.
func (s *state) freeze(since *state) *state {
	return &state{
		meta:          proto.CloneOf(s.meta),
		machines:      s.machines.freeze(since.machines),
		hardware:      s.hardware.freeze(since.hardware),
		devices:       s.devices.freeze(since.devices),
		plans:         s.plans.freeze(since.plans),
		runs:          s.runs.freeze(since.runs),
		history:       s.history.freeze(since.history),
		events:        s.events.freeze(since.events),
		logs:          s.logs.freeze(since.logs),
		peers:         s.peers.freeze(since.peers),
		tokens:        s.tokens.freeze(since.tokens),
		secrets:       s.secrets.freeze(since.secrets),
		signingKeys:   s.signingKeys.freeze(since.signingKeys),
		audit:         s.audit.freeze(since.audit),
		leases:        s.leases.freeze(since.leases),
		pools:         s.pools.freeze(since.pools),
		providers:     s.providers.freeze(since.providers),
		services:      s.services.freeze(since.services),
		serviceEvents: s.serviceEvents.freeze(since.serviceEvents),
		staged:        s.staged.freeze(since.staged),
		installs:      s.installs.freeze(since.installs),
		images:        s.images.freeze(since.images),
		news:          s.news.freeze(since.news),
		webhooks:      s.webhooks.freeze(since.webhooks),
		read:          s.read,
	}
}

// tables returns all tables in the order of a snapshot.
func (s *state) tables() []*rowset {
	return []*rowset{
		s.machines.rowset, s.plans.rowset, s.runs.rowset, s.history.rowset, s.events.rowset, s.logs.rowset,
		s.peers.rowset, s.tokens.rowset,
		s.secrets.rowset, s.signingKeys.rowset, s.audit.rowset, s.leases.rowset, s.installs.rowset,
		s.pools.rowset, s.providers.rowset, s.services.rowset,
		s.serviceEvents.rowset, s.devices.rowset, s.hardware.rowset, s.images.rowset, s.news.rowset,
		s.webhooks.rowset, s.staged.rowset,
	}
}
