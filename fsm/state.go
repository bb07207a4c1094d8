package fsm

import (
	"google.golang.org/protobuf/proto"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// state is all that is replicated.
type state struct {
	meta          *internalv1.Meta
	machines      *table[holdfastv1.Machine, *holdfastv1.Machine]
	hardware      *table[internalv1.MachineHardware, *internalv1.MachineHardware]
	devices       *table[internalv1.DeviceNote, *internalv1.DeviceNote]
	plans         *table[holdfastv1.Plan, *holdfastv1.Plan]
	runs          *table[holdfastv1.Run, *holdfastv1.Run]
	history       *table[holdfastv1.HistoryEntry, *holdfastv1.HistoryEntry]
	events        *table[holdfastv1.RunEvent, *holdfastv1.RunEvent]
	logs          *table[internalv1.StoredLog, *internalv1.StoredLog]
	peers         *table[internalv1.PeerRecord, *internalv1.PeerRecord]
	tokens        *table[internalv1.StoredToken, *internalv1.StoredToken]
	secrets       *table[internalv1.StoredSecret, *internalv1.StoredSecret]
	signingKeys   *table[internalv1.SigningKey, *internalv1.SigningKey]
	audit         *table[holdfastv1.AuditEvent, *holdfastv1.AuditEvent]
	leases        *table[internalv1.Lease, *internalv1.Lease]
	pools         *table[holdfastv1.Pool, *holdfastv1.Pool]
	providers     *table[holdfastv1.PlatformProvider, *holdfastv1.PlatformProvider]
	services      *table[holdfastv1.Service, *holdfastv1.Service]
	serviceEvents *table[holdfastv1.ServiceEvent, *holdfastv1.ServiceEvent]
	staged        *table[internalv1.StagedChunk, *internalv1.StagedChunk]
	installs      *table[internalv1.StoredInstall, *internalv1.StoredInstall]
	images        *table[holdfastv1.Image, *holdfastv1.Image]
	news          *table[holdfastv1.Event, *holdfastv1.Event]
	webhooks      *table[holdfastv1.Webhook, *holdfastv1.Webhook]
	read          *readStage // no part of it: what is known of what is staged
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

// copy gives one that later writes do not touch, and that may be written to.
func (s *state) copy() *state { return s.freeze(&state{}) }

// freeze gives what is not to be written to, neither by later writes to the state. What has not changed since an earlier one it has in common with that.
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

// encoded is what a snapshot sees of a table.
type encoded interface {
	each(func(kind internalv1.SnapshotRecord_Table, key string, value []byte) error) error
	intake(keep bool) intake
	name() string
	len() int
}

// tables lists all tables in the order of a snapshot.
func (s *state) tables() []encoded {
	return []encoded{
		s.machines, s.plans, s.runs, s.history, s.events, s.logs, s.peers, s.tokens, s.secrets, s.signingKeys, s.audit,
		s.leases, s.installs, s.pools, s.providers, s.services, s.serviceEvents, s.devices, s.hardware, s.images,
		s.news, s.webhooks, s.staged,
	}
}

// table gives the table of a snapshot record, or nil.
func (s *state) table(kind internalv1.SnapshotRecord_Table) encoded {
	switch kind {
	case internalv1.SnapshotRecord_MACHINES:
		return s.machines
	case internalv1.SnapshotRecord_PLANS:
		return s.plans
	case internalv1.SnapshotRecord_RUNS:
		return s.runs
	case internalv1.SnapshotRecord_HISTORY:
		return s.history
	case internalv1.SnapshotRecord_EVENTS:
		return s.events
	case internalv1.SnapshotRecord_RUN_LOGS:
		return s.logs
	case internalv1.SnapshotRecord_PEERS:
		return s.peers
	case internalv1.SnapshotRecord_TOKENS:
		return s.tokens
	case internalv1.SnapshotRecord_SECRETS:
		return s.secrets
	case internalv1.SnapshotRecord_SIGNING_KEYS:
		return s.signingKeys
	case internalv1.SnapshotRecord_AUDIT:
		return s.audit
	case internalv1.SnapshotRecord_LEASES:
		return s.leases
	case internalv1.SnapshotRecord_POOLS:
		return s.pools
	case internalv1.SnapshotRecord_PROVIDERS:
		return s.providers
	case internalv1.SnapshotRecord_SERVICES:
		return s.services
	case internalv1.SnapshotRecord_SERVICE_EVENTS:
		return s.serviceEvents
	case internalv1.SnapshotRecord_DEVICE_NOTES:
		return s.devices
	case internalv1.SnapshotRecord_MACHINE_HARDWARE:
		return s.hardware
	case internalv1.SnapshotRecord_INSTALLS:
		return s.installs
	case internalv1.SnapshotRecord_IMAGES:
		return s.images
	case internalv1.SnapshotRecord_NEWS:
		return s.news
	case internalv1.SnapshotRecord_WEBHOOKS:
		return s.webhooks
	case internalv1.SnapshotRecord_STAGED_BACKUP:
		return s.staged
	}
	return nil
}
