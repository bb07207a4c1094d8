// Package ui is the dashboard at /ui/. Pages are rendered by the peer that receives the
// request, from its own state.
//
// It owns the pages and the confirmations of actions. It makes no access decisions: every
// page and action calls the services of this process as the signed-in user. Reads use this
// peer's own state, so pages work without a quorum; writes go to the leader. Pages work
// without JavaScript; JavaScript keeps them up to date.
//
// It must not import the cluster's internals, read the state other than through the
// services, contact other hosts, or keep state that other peers lack.
package ui

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/auth"
	"github.com/holdfast-metal/holdfast/server/internal/signin"
	"github.com/holdfast-metal/holdfast/server/ui/internal/bulk"
	"github.com/holdfast-metal/holdfast/server/ui/internal/find"
	"github.com/holdfast-metal/holdfast/server/ui/internal/fleet"
	"github.com/holdfast-metal/holdfast/server/ui/internal/health"
	"github.com/holdfast-metal/holdfast/server/ui/internal/lists"
)

// Feed streams changes to pages and searches (*server.Server). Its errors are statuses. send is
// called in the goroutine of the caller.
type Feed interface {
	find.Source
	// RunEvents sends the transitions of runs after the cursor. With cursor 0 it sends a
	// cursor first and then new transitions.
	RunEvents(ctx context.Context, filter string, cursor uint64, send func(*holdfastv1.RunEvent) error) error
	// RunLog sends a run's log from an offset.
	RunLog(ctx context.Context, r *holdfastv1.StreamRunLogsRequest, send func(*holdfastv1.LogChunk) error) error
}

// dashboard is the shared state of all handlers. It contains only caches.
type dashboard struct {
	rpc     grpc.ClientConnInterface
	feed    Feed
	history Histories
	sealer  Sealer
	people  *signin.Flow
	log     *slog.Logger
	assets  *assets
	pages   pages
	origin  *http.CrossOriginProtection
	fleets  *fleet.Cache
	health  *health.Cache
	now     func() time.Time
}

// Register adds the dashboard's routes. Calls to the services use rpc.
func Register(
	m *auth.Mux,
	rpc grpc.ClientConnInterface,
	feed Feed,
	h Histories,
	sealer Sealer,
	log *slog.Logger,
) {
	a := loadAssets()
	d := &dashboard{
		rpc:     rpc,
		feed:    feed,
		history: h,
		sealer:  sealer,
		people:  signin.New(m.SignIns(), sealer),
		log:     log,
		assets:  a,
		pages:   loadPages(a),
		origin:  http.NewCrossOriginProtection(),
		now:     time.Now,
	}
	d.fleets, d.health = fleet.NewCache(d.now), health.NewCache(d.now)
	d.routes(m.WithCookie(cookieName, d.unseal))
}

// routes adds all routes below /ui/.
func (d *dashboard) routes(m *auth.Mux) {
	viewer := auth.Least(holdfastv1.Role_VIEWER)
	open := func(pattern string, h http.HandlerFunc) { m.HandleFunc(pattern, auth.Public(), nil, secured(h)) }
	page := func(pattern string, rule auth.Rule, h func(*visit) error) {
		m.HandleFunc(pattern, rule, d.refused, secured(d.visit(h)))
	}
	act := func(path, rpc string, ask, do func(*visit) error) {
		rule := ruleOf(rpc)
		page("GET "+path, rule, ask)
		m.HandleFunc("POST "+path, rule, d.refused, secured(d.sameOrigin(d.visit(do))))
	}

	m.Fallback("/ui/", d.noRoute)
	open("GET /ui/assets/{hash}/{name}", d.assets.serve)
	open("GET /ui/signin", d.signInPage)
	open("POST /ui/signin", d.sameOrigin(d.signIn))
	open("GET /ui/signin/with", d.signInWith)
	open("GET "+auth.CallbackPath, d.signedIn)
	m.HandleFunc("POST /ui/signout", auth.Rule{Anyone: true},
		func(w http.ResponseWriter, r *http.Request, _ int, _ *auth.Error) {
			secured(d.sameOrigin(d.signedOut))(w, r)
		},
		secured(d.sameOrigin(d.signOut)))

	page("GET /ui/{$}", viewer, d.overview)
	page("GET /ui/machines", viewer, d.machines)
	page("GET /ui/machines/{id}", viewer, d.machine)
	page("GET /ui/machines/{id}/console", viewer, d.console)
	page("GET /ui/runs", viewer, d.runs)
	page("GET /ui/runs/{id}", viewer, d.run)
	m.HandleFunc("GET /ui/runs/{id}/log", viewer, nil, secured(d.runLog))
	m.HandleFunc("GET /ui/events", viewer, nil, secured(d.events))
	m.HandleFunc("GET /ui/find", viewer, nil, secured(find.Handler(d.feed, func() find.Plans {
		return newClients(&conn{ClientConnInterface: d.rpc, reads: true}).plans
	})))
	page("GET /ui/waves/{id}", viewer, d.wave)
	page("GET /ui/plans", viewer, d.plans)
	page("GET /ui/plans/{id...}", viewer, d.plan)
	page("GET /ui/compare", viewer, d.compare)
	page("GET /ui/pools", viewer, d.pools)
	page("GET /ui/cluster", viewer, d.cluster)
	page("GET /ui/charts", viewer, d.charts)
	m.HandleFunc("GET /ui/charts/data", viewer, nil, secured(d.chartsData))
	for _, k := range lists.All() {
		rule := viewer
		if k.Method != "" {
			rule = ruleOf(k.Method)
		}
		page("GET /ui/"+k.Name, rule, d.list(k, nil))
	}
	page("GET /ui/hardware", viewer, d.list(lists.Hardware(), hardwareSum))
	page("GET /ui/alerts", viewer, d.alerts)

	confirm := func(path, rpc string, a action) { act(path, rpc, a.ask, a.submit) }
	confirm("/ui/machines/{id}/run", "RunService/StartRun",
		action{"Start a run on", "machines", runQuestion, startRun})
	confirm("/ui/machines/{id}/phase", "MachineService/SetMachinePhase",
		action{"Set the phase of", "machines", phaseQuestion, setPhase})
	confirm("/ui/machines/{id}/approve", "NodeService/TransitionNode",
		action{"Approve", "machines", approveQuestion, approve})
	confirm("/ui/runs/{id}/cancel", "RunService/CancelRun", action{"Cancel", "runs", cancelQuestion, cancelRun})
	confirm("/ui/release/{id...}", "PlanService/ReleasePlan", action{"Release", "plans", releaseQuestion, release})
	confirm("/ui/waves/{id}/cancel", "WaveService/CancelWave",
		action{"Cancel", "waves", cancelWaveQuestion, cancelWave})
	confirm("/ui/waves/{id}/retry", "WaveService/RetryWave", action{"Retry", "waves", retryWaveQuestion, retryWave})
	confirm("/ui/sessions/{id}/end", "SessionService/EndSession",
		action{"End session", "sessions", endSessionQuestion, endSession})
	for _, k := range bulk.Kinds() {
		act("/ui/bulk/"+k.Key, k.Method,
			func(v *visit) error { return v.askBulk(k) }, func(v *visit) error { return v.doBulk(k) })
	}
	act("/ui/check", "PlanService/CreatePlan", d.askCheck, d.check)
	act("/ui/probe/{id...}", "PlanService/ProbePlan", d.showProbe, d.probe)
	act("/ui/drill", "OperatorService/TransferLeadership", d.askDrill, d.drill)
	m.HandleFunc("GET /ui/{path...}", viewer, d.refused, secured(d.visit(func(v *visit) error {
		return status.Error(codes.NotFound, "the dashboard has no page "+v.r.URL.Path)
	})))
}

// ruleOf returns the access rule of a method of the API, given without its package.
func ruleOf(method string) auth.Rule { return auth.SameAs("holdfast.v1." + method) }

// may reports whether the role of a user allows a method. Pages offer only such actions.
func may(id *holdfastv1.Identity, method string) bool {
	rule := ruleOf(method)
	return rule.Lets(id)
}
