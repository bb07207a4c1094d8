// Package schema has the keys, indexes and facets of every table. It must not know how a record
// changes.
package schema

import (
	"slices"

	"github.com/holdfast-metal/holdfast/fsm/internal/images"
	"github.com/holdfast-metal/holdfast/fsm/internal/table"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// Devices returns the schema of notes on BMCs and hosts.
func Devices() *table.Schema[*internalv1.DeviceNote] {
	return &table.Schema[*internalv1.DeviceNote]{
		Kind: internalv1.SnapshotRecord_DEVICE_NOTES,
		Key:  (*internalv1.DeviceNote).GetKey,
	}
}

// Hardware returns the schema of inventories.
func Hardware() *table.Schema[*internalv1.MachineHardware] {
	return &table.Schema[*internalv1.MachineHardware]{
		Kind: internalv1.SnapshotRecord_MACHINE_HARDWARE,
		Key:  (*internalv1.MachineHardware).GetMachineId,
	}
}

// ImagesByFile is the index of images by the sums of their files.
const ImagesByFile = 0

// Images returns the schema of images.
func Images() *table.Schema[*holdfastv1.Image] {
	return &table.Schema[*holdfastv1.Image]{
		Kind:    internalv1.SnapshotRecord_IMAGES,
		Key:     (*holdfastv1.Image).GetName,
		Indexes: 1,
		Index: func(i *holdfastv1.Image, add func(int, string)) {
			var sums []string
			for _, f := range images.Files(i) {
				if !slices.Contains(sums, f.GetSha256()) {
					sums = append(sums, f.GetSha256())
					add(ImagesByFile, f.GetSha256())
				}
			}
		},
	}
}

// The indexes of installs.
const (
	InstallsByToken = iota
	InstallsOpen    // sessions that have not ended, by image
	installIndexes  // the number of indexes
)

// Installs returns the schema of install sessions.
func Installs() *table.Schema[*internalv1.StoredInstall] {
	return &table.Schema[*internalv1.StoredInstall]{
		Kind:    internalv1.SnapshotRecord_INSTALLS,
		Key:     func(s *internalv1.StoredInstall) string { return s.GetInstall().GetMachineId() },
		Indexes: installIndexes,
		Index: func(s *internalv1.StoredInstall, add func(int, string)) {
			if s.GetInstall() != nil && s.GetInstall().GetClosedAt() == nil {
				add(InstallsOpen, NameKey(s.GetInstall().GetImage()))
			}
			for _, sum := range slices.Concat(s.GetGood(), s.GetPast()) {
				add(InstallsByToken, HashKey(sum))
			}
		},
	}
}

// The indexes of console sessions.
const (
	ConsolesOpen     = iota // attached ones
	ConsolesRecorded        // ended ones with recorded output, oldest first
	consoleIndexes          // the number of indexes
)

// ConsoleSessions returns the schema of console sessions.
func ConsoleSessions() *table.Schema[*holdfastv1.ConsoleSession] {
	return &table.Schema[*holdfastv1.ConsoleSession]{
		Kind:    internalv1.SnapshotRecord_CONSOLE_SESSIONS,
		Key:     (*holdfastv1.ConsoleSession).GetSessionId,
		Indexes: consoleIndexes,
		Index: func(s *holdfastv1.ConsoleSession, add func(int, string)) {
			switch {
			case s.GetDetachedAt() == nil:
				add(ConsolesOpen, s.GetSessionId())
			case s.GetRecordedBytes() > 0:
				add(ConsolesRecorded, s.GetSessionId())
			}
		},
	}
}

// OutputKey returns the key of a block of the output of a console session.
func OutputKey(b *internalv1.StoredOutput) string {
	return b.GetSessionId() + "/" + Ordered(uint64(b.GetOffset()))
}

// ConsoleOutput returns the schema of the recorded output of console sessions.
func ConsoleOutput() *table.Schema[*internalv1.StoredOutput] {
	return &table.Schema[*internalv1.StoredOutput]{Kind: internalv1.SnapshotRecord_CONSOLE_OUTPUT, Key: OutputKey}
}

// The indexes of sessions of people.
const (
	SessionsByPrincipal = iota // the principal, a line break, and the time at which it expires
	SessionsByExpiry           // the time at which it expires
	sessionIndexes             // the number of indexes
)

// Sessions returns the schema of sessions of people.
func Sessions() *table.Schema[*holdfastv1.Session] {
	return &table.Schema[*holdfastv1.Session]{
		Kind:    internalv1.SnapshotRecord_SESSIONS,
		Key:     (*holdfastv1.Session).GetSessionId,
		Indexes: sessionIndexes,
		Index: func(s *holdfastv1.Session, add func(int, string)) {
			at := OrderedTime(s.GetExpiresAt(), s.GetSessionId())
			add(SessionsByPrincipal, s.GetPrincipal()+"\n"+at)
			add(SessionsByExpiry, at)
		},
	}
}

// Peers returns the schema of peers.
func Peers() *table.Schema[*internalv1.PeerRecord] {
	return &table.Schema[*internalv1.PeerRecord]{
		Kind: internalv1.SnapshotRecord_PEERS,
		Key:  (*internalv1.PeerRecord).GetId,
	}
}

// Admissions returns the schema of decisions about peers.
func Admissions() *table.Schema[*internalv1.PeerAdmission] {
	return &table.Schema[*internalv1.PeerAdmission]{
		Kind: internalv1.SnapshotRecord_PEER_ADMISSIONS,
		Key:  (*internalv1.PeerAdmission).GetId,
	}
}

// PlansByImage is the index of plans by the images that their steps name.
const PlansByImage = 0

// Plans returns the schema of plans.
func Plans() *table.Schema[*holdfastv1.Plan] {
	return &table.Schema[*holdfastv1.Plan]{
		Kind:    internalv1.SnapshotRecord_PLANS,
		Key:     (*holdfastv1.Plan).GetPlanId,
		Decoded: true, // few plans begin most runs, and each run reads its plan several times
		Indexes: 1,
		Index: func(p *holdfastv1.Plan, add func(int, string)) {
			var names []string
			for _, st := range p.GetSteps() {
				if name := st.GetRepave().GetImage(); name != "" && !slices.Contains(names, name) {
					names = append(names, name)
					add(PlansByImage, NameKey(name))
				}
			}
		},
	}
}

// PoolsByLower is the index of pools whose id has capitals, by the id in lower case: see Respelled.
const PoolsByLower = 0

// Pools returns the schema of pools.
func Pools() *table.Schema[*holdfastv1.Pool] {
	return &table.Schema[*holdfastv1.Pool]{
		Kind:    internalv1.SnapshotRecord_POOLS,
		Key:     (*holdfastv1.Pool).GetPoolId,
		Indexes: 1,
		Index: func(p *holdfastv1.Pool, add func(int, string)) {
			if low, capitals := lower(p.GetPoolId()); capitals {
				add(PoolsByLower, NameKey(low))
			}
		},
	}
}

// ProvidersByPool is the index of platform providers by PoolKey.
const ProvidersByPool = 0

// Providers returns the schema of platform providers.
func Providers() *table.Schema[*holdfastv1.PlatformProvider] {
	return &table.Schema[*holdfastv1.PlatformProvider]{
		Kind:    internalv1.SnapshotRecord_PROVIDERS,
		Key:     (*holdfastv1.PlatformProvider).GetProviderId,
		Indexes: 1,
		Index: func(p *holdfastv1.PlatformProvider, add func(int, string)) {
			if p.GetPoolId() != "" {
				add(ProvidersByPool, PoolKey(p.GetPoolId()))
			}
		},
	}
}

// The indexes of services.
const (
	ServicesGone       = iota // deregistered services, by time
	ServicesByEndpoint        // the others, by EndpointKey
	serviceIndexes            // the number of indexes
)

// EndpointKey returns the index key of a service's name, host and port, which are single lines.
func EndpointKey(s *holdfastv1.ServiceTarget) string {
	return s.GetServiceName() + "\n" + s.GetHost() + "\n" + Ordered(uint64(s.GetPort()))
}

// Services returns the schema of services.
func Services() *table.Schema[*holdfastv1.Service] {
	return &table.Schema[*holdfastv1.Service]{
		Kind:    internalv1.SnapshotRecord_SERVICES,
		Key:     func(s *holdfastv1.Service) string { return s.GetTarget().GetId() },
		Indexes: serviceIndexes,
		Index: func(s *holdfastv1.Service, add func(int, string)) {
			if s.GetDeregistered() {
				add(ServicesGone, OrderedTime(s.GetUpdatedAt(), ""))
			} else {
				add(ServicesByEndpoint, EndpointKey(s.GetTarget()))
			}
		},
	}
}

// Staged returns the schema of staged chunks of a snapshot file.
func Staged() *table.Schema[*internalv1.StagedChunk] {
	return &table.Schema[*internalv1.StagedChunk]{
		Kind: internalv1.SnapshotRecord_STAGED_BACKUP,
		Key:  func(c *internalv1.StagedChunk) string { return Ordered(uint64(c.GetSequence())) },
	}
}

// Secrets returns the schema of secrets.
func Secrets() *table.Schema[*internalv1.StoredSecret] {
	return &table.Schema[*internalv1.StoredSecret]{
		Kind: internalv1.SnapshotRecord_SECRETS,
		Key:  func(s *internalv1.StoredSecret) string { return s.GetSecret().GetName() },
	}
}

// SigningKeys returns the schema of signing keys.
func SigningKeys() *table.Schema[*internalv1.SigningKey] {
	return &table.Schema[*internalv1.SigningKey]{
		Kind: internalv1.SnapshotRecord_SIGNING_KEYS,
		Key:  (*internalv1.SigningKey).GetKeyId,
	}
}

// The indexes of tokens.
const (
	TokensByHash    = iota // the first bytes of the hash
	TokensByMachine        // the machine of an agent's token
	tokenIndexes           // the number of indexes
)

// hashPrefix is the length of the indexed part of a token's hash, in bytes. The full hash is
// compared in constant time.
const hashPrefix = 8

// Tokens returns the schema of tokens.
func Tokens() *table.Schema[*internalv1.StoredToken] {
	return &table.Schema[*internalv1.StoredToken]{
		Kind:    internalv1.SnapshotRecord_TOKENS,
		Key:     func(s *internalv1.StoredToken) string { return s.GetToken().GetTokenId() },
		Indexes: tokenIndexes,
		Index: func(s *internalv1.StoredToken, add func(int, string)) {
			add(TokensByHash, HashKey(s.GetSha256()))
			if m := s.GetToken().GetMachineId(); m != "" {
				add(TokensByMachine, m+"/"+s.GetToken().GetTokenId())
			}
		},
	}
}

// HashKey returns the index key of the hash of a token.
func HashKey(sum []byte) string { return string(sum[:min(len(sum), hashPrefix)]) }

// Webhooks returns the schema of webhooks.
func Webhooks() *table.Schema[*holdfastv1.Webhook] {
	return &table.Schema[*holdfastv1.Webhook]{Kind: internalv1.SnapshotRecord_WEBHOOKS, Key: (*holdfastv1.Webhook).GetName}
}
