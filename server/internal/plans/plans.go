package plans

import (
	"context"
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/proto/holdfast/stepkind"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/server/auth"
	"github.com/holdfast-metal/holdfast/server/internal/edge"
	"github.com/holdfast-metal/holdfast/server/internal/page"
	"github.com/holdfast-metal/holdfast/server/internal/request"
	"github.com/holdfast-metal/holdfast/server/internal/scope"
)

// Config configures a Service.
type Config struct {
	Providers *providers.Set
	// ChooseDisk returns the disk that a rule selects (see server.Config). It may be nil.
	ChooseDisk func(rule string, h *holdfastv1.HardwareInventory) (disk string, sure bool, err error)
	Starts     Starts
	// Files has the files of images. It may be nil.
	Files Files
}

// Starts prepares commands that start runs (*startrun.Preparer).
type Starts interface {
	PrepareOf(ctx context.Context, start *internalv1.StartRun, plan *holdfastv1.Plan) error
}

// Files has the files of images on the peers (*images.Depot).
type Files interface {
	// Copies returns the copy of a file on each peer, complete or not.
	Copies(ctx context.Context, sum string) []*holdfastv1.Image_Copy
}

// Service implements PlanService.
type Service struct {
	holdfastv1.UnimplementedPlanServiceServer
	*edge.Peer
	cfg Config
}

// New returns the service of a peer.
func New(peer *edge.Peer, cfg Config) *Service { return &Service{Peer: peer, cfg: cfg} }

// GetPlan gets a plan.
func (s *Service) GetPlan(ctx context.Context, r *holdfastv1.GetPlanRequest) (*holdfastv1.Plan, error) {
	v, err := request.View(ctx, s.Cluster.View, "plan_id", r.GetPlanId())
	if err != nil {
		return nil, err
	}
	p, ok := v.Plan(r.GetPlanId())
	if !ok {
		return nil, request.NotFound("PLAN_NOT_FOUND", "plan", r.GetPlanId())
	}
	return scope.Plan(auth.From(ctx), p), nil
}

// ListPlans lists plans by id.
func (s *Service) ListPlans(
	ctx context.Context, r *holdfastv1.ListPlansRequest,
) (*holdfastv1.ListPlansResponse, error) {
	p, v, err := page.Open(ctx, s.Cluster.View, r, "plans")
	if err != nil {
		return nil, err
	}
	resp := &holdfastv1.ListPlansResponse{}
	rows := page.Keyed(v.Plans(p.After), (*holdfastv1.Plan).GetPlanId)
	resp.Plans, resp.NextPageToken, err = page.Collect(ctx, p, rows, nil)
	for i, plan := range resp.GetPlans() {
		resp.Plans[i] = scope.Plan(auth.From(ctx), plan)
	}
	return resp, err
}

// CreatePlan stores a plan. With validate_only it only returns the plan that it would
// store.
func (s *Service) CreatePlan(ctx context.Context, r *holdfastv1.CreatePlanRequest) (*holdfastv1.Plan, error) {
	if r.GetPlan() == nil {
		return nil, request.Invalid("plan", "is required")
	}
	plan := fsm.WrittenPlan(r.GetPlan())
	if err := s.checkPlan(plan); err != nil {
		return nil, err
	}
	// Do not guess the meaning of a field from a newer client: plans act on hardware.
	if name, found := request.HasUnknown(plan.ProtoReflect()); found {
		return nil, request.Invalid("plan",
			"has a field in "+name+" that is unknown to this server: is the client newer than the server?")
	}
	for _, st := range plan.GetSteps() {
		if since := stepkind.Of(st).GetSince(); since > fsm.Level1 {
			if err := s.Needs(ctx, since, "create a plan with a step of kind "+stepkind.Name(st)); err != nil {
				return nil, err
			}
		}
	}
	if r.GetValidateOnly() {
		return s.dryRun(ctx, plan, r.GetReplace())
	}
	c := auth.Command(ctx)
	c.Op = &internalv1.Command_CreatePlan{CreatePlan: &internalv1.CreatePlan{Plan: plan, Replace: r.GetReplace()}}
	return edge.Apply[*holdfastv1.Plan](ctx, s.Cluster, c)
}

// checkPlan validates a plan before it is stored. It also checks disk rules, which
// otherwise only the installer would refuse, on the machine.
func (s *Service) checkPlan(plan *holdfastv1.Plan) error {
	bad := append(fsm.ValidatePlan(plan), s.DeniedURLs("plan", plan)...)
	for i, st := range plan.GetSteps() {
		rule := st.GetRepave().GetDisk()
		if rule == "" || s.cfg.ChooseDisk == nil {
			continue
		}
		// Without an inventory a sure error can only be about the rule itself.
		if _, sure, err := s.cfg.ChooseDisk(rule, nil); sure && err != nil {
			field := fmt.Sprintf("plan.steps[%d].repave.disk", i)
			bad = append(bad, fsm.FieldViolation{Field: field, Description: err.Error()})
		}
	}
	return request.Violations(bad)
}

// dryRun returns the answer that the FSM would return now, without a change.
func (s *Service) dryRun(ctx context.Context, plan *holdfastv1.Plan, replace bool) (*holdfastv1.Plan, error) {
	v, err := s.Cluster.View(ctx)
	if err != nil {
		return nil, err
	}
	old, exists := v.Plan(plan.GetPlanId())
	switch {
	case !exists:
	case fsm.SamePlan(old, plan):
		return old, nil
	default:
		if err := fsm.CheckReplacePlan(old, replace); err != nil {
			return nil, err
		}
	}
	return proto.CloneOf(plan), nil
}

// DeletePlan deletes a plan that no run refers to.
func (s *Service) DeletePlan(
	ctx context.Context, r *holdfastv1.DeletePlanRequest,
) (*holdfastv1.DeletePlanResponse, error) {
	if err := request.Required("plan_id", r.GetPlanId()); err != nil {
		return nil, err
	}
	c := auth.Command(ctx)
	c.Op = &internalv1.Command_DeletePlan{DeletePlan: &internalv1.DeletePlan{PlanId: r.GetPlanId()}}
	return edge.ApplyEmpty[holdfastv1.DeletePlanResponse](ctx, s.Cluster, c)
}

// ReleasePlan releases the brakes of a plan in the pools of the caller.
func (s *Service) ReleasePlan(ctx context.Context, r *holdfastv1.ReleasePlanRequest) (*holdfastv1.Plan, error) {
	if err := request.Required("plan_id", r.GetPlanId()); err != nil {
		return nil, err
	}
	id := auth.From(ctx)
	c := auth.Command(ctx)
	pools := id.GetPools() // none: everything
	if r.GetPool() != "" {
		pools = []string{r.GetPool()}
	}
	c.Op = &internalv1.Command_ReleasePlan{
		ReleasePlan: &internalv1.ReleasePlan{PlanId: r.GetPlanId(), MaxActive: r.MaxActive, Pools: pools},
	}
	p, err := edge.Apply[*holdfastv1.Plan](ctx, s.Cluster, c)
	if err != nil {
		return nil, err
	}
	return scope.Plan(id, p), nil
}
