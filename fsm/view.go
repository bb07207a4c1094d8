package fsm

import (
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/fsm/internal/access"
	"github.com/holdfast-metal/holdfast/fsm/internal/backup"
	"github.com/holdfast-metal/holdfast/fsm/internal/consoles"
	"github.com/holdfast-metal/holdfast/fsm/internal/core"
	"github.com/holdfast-metal/holdfast/fsm/internal/events"
	"github.com/holdfast-metal/holdfast/fsm/internal/fleet"
	"github.com/holdfast-metal/holdfast/fsm/internal/leases"
	"github.com/holdfast-metal/holdfast/fsm/internal/registry"
	"github.com/holdfast-metal/holdfast/fsm/internal/runlog"
	"github.com/holdfast-metal/holdfast/fsm/internal/runs"
	"github.com/holdfast-metal/holdfast/fsm/internal/sessions"
	"github.com/holdfast-metal/holdfast/fsm/internal/trail"
	"github.com/holdfast-metal/holdfast/fsm/internal/waves"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// View is the state at one index. It never changes. Its messages are shared: a caller that
// changes one copies it first. Most queries are those of the rule packages.
type View struct {
	accessView
	eventsView
	trailView
	fleetView
	registryView
	sessionsView
	runsView
	leasesView
	backupView
	consolesView
	wavesView

	state *core.State
	stage *backup.Cache
}

// The queries of the rule packages.
type (
	accessView   = access.View
	eventsView   = events.View
	trailView    = trail.View
	fleetView    = fleet.View
	registryView = registry.View
	sessionsView = sessions.View
	runsView     = runs.View
	leasesView   = leases.View
	backupView   = backup.View
	consolesView = consoles.View
	wavesView    = waves.View
)

func newView(s *core.State, codec *runlog.Codec, stage *backup.Cache) *View {
	return &View{
		accessView:   access.NewView(s),
		eventsView:   events.NewView(s),
		trailView:    trail.NewView(s),
		fleetView:    fleet.NewView(s),
		registryView: registry.NewView(s),
		sessionsView: sessions.NewView(s),
		runsView:     runs.NewView(s, codec),
		leasesView:   leases.NewView(s),
		backupView:   backup.NewView(s),
		consolesView: consoles.NewView(s),
		wavesView:    waves.NewView(s),
		state:        s,
		stage:        stage,
	}
}

// Index returns the index of the last entry that the view includes.
func (v *View) Index() uint64 { return v.state.Meta.GetAppliedIndex() }

// Meta returns the state outside the tables: epoch, leader, cluster id, feature level.
func (v *View) Meta() *internalv1.Meta { return proto.CloneOf(v.state.Meta) }

// Sizes returns the number of records in each table, by table name.
func (v *View) Sizes() map[string]int {
	sizes := map[string]int{}
	for _, t := range v.state.Tables() {
		sizes[t.Name()] = t.Len()
	}
	return sizes
}

// Peers returns the record of every peer, by id.
func (v *View) Peers() []*internalv1.PeerRecord { return slices.Collect(v.state.Peers.Ascend("", "")) }

// Peer returns the record of a peer.
func (v *View) Peer(id string) (*internalv1.PeerRecord, bool) { return v.state.Peers.Get(id) }

// Admission returns an operator's decision about a peer.
func (v *View) Admission(id string) (*internalv1.PeerAdmission, bool) {
	return v.state.Admissions.Get(id)
}

// Admissions returns the operators' decisions about peers, by id.
func (v *View) Admissions() []*internalv1.PeerAdmission {
	return slices.Collect(v.state.Admissions.Ascend("", ""))
}

// Now returns the record's clock; the zero time before the first command.
func (v *View) Now() time.Time {
	if v.state.Meta.GetNow() == nil {
		return time.Time{}
	}
	return v.state.Meta.GetNow().AsTime()
}

// AgreedTime returns the time on which a majority of the voters' clocks agrees, if one does, when
// the monotonic clock of the readings shows uptime.
func AgreedTime(c *internalv1.CompareClocks, uptime int64) (time.Time, bool) {
	return core.Agreed(c, uptime)
}

// The limits of the recorded clock.
const (
	// ClocksAgree is the largest difference of clocks that agree.
	ClocksAgree = core.ClocksAgree
	// MaxClockMove is how far wall clocks of leaders may move it until a majority confirms the
	// time.
	MaxClockMove = core.MaxAhead
)

// ClockAhead returns how far the leader's wall clock is ahead of the record's if it is not
// followed, else 0.
func (v *View) ClockAhead() time.Duration {
	return time.Duration(v.state.Meta.GetClock().GetAheadMs()) * time.Millisecond
}

// Has reports whether the cluster has reached a feature level. From then on, commands and
// fields of the level may be proposed.
func (v *View) Has(level uint32) bool { return v.state.Meta.GetFeatureLevel() >= level }
