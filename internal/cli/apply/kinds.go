package apply

import (
	"cmp"
	"context"
	"maps"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/internal/cli/kinds"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// applyKinds lists the kinds of documents, those that others refer to first.
func applyKinds() []applyKind {
	return []applyKind{poolApplier().documents("pool_id"), imageApplier().documents("name"),
		planApplier().documents("plan_id"), machineApplier().documents("machine_id")}
}

func poolApplier() applier[*holdfastv1.Pool] {
	return applier[*holdfastv1.Pool]{
		kind: kinds.Pool(),
		declared: func(p *holdfastv1.Pool) *holdfastv1.Pool {
			return &holdfastv1.Pool{PoolId: p.GetPoolId(), Declared: p.GetDeclared(), Provider: p.GetProvider(),
				GpuType: p.GetGpuType(), Labels: p.GetLabels(), Region: p.GetRegion()}
		},
		plan: func(_ context.Context, _ *client.Client, t *target[*holdfastv1.Pool]) (*holdfastv1.Pool, error) {
			want := &holdfastv1.Pool{
				PoolId: t.doc.GetPoolId(), Declared: true, Provider: cmp.Or(t.doc.GetProvider(), t.live.GetProvider()),
				GpuType: cmp.Or(t.doc.GetGpuType(), t.live.GetGpuType()),
				Labels:  labels(t.live.GetLabels(), t.doc.GetLabels()),
				Region:  cmp.Or(t.doc.GetRegion(), t.live.GetRegion()),
			}
			if managed(t.live) { // its manager reports the region
				want.Region = t.live.GetRegion()
			}
			if t.found && exported(t.doc) {
				want.Declared = t.live.GetDeclared() || want.GetProvider() != t.live.GetProvider() ||
					want.GetGpuType() != t.live.GetGpuType() || !maps.Equal(want.GetLabels(), t.live.GetLabels())
			}
			return want, nil
		},
		check: fsm.CheckPool,
		put: func(ctx context.Context, c *client.Client, t *target[*holdfastv1.Pool]) error {
			_, err := c.Pools().CreatePool(ctx, &holdfastv1.CreatePoolRequest{Pool: t.want})
			return err
		},
	}
}

// exported reports whether a document is the output of get for a pool that only its manager has
// registered. Applied again, it does not declare the pool.
func exported(doc *holdfastv1.Pool) bool {
	return !doc.GetDeclared() && doc.GetStatus() != holdfastv1.Pool_STATUS_UNSPECIFIED
}

// managed reports whether a manager has registered a pool.
func managed(p *holdfastv1.Pool) bool {
	return p.GetStatus() != holdfastv1.Pool_STATUS_UNSPECIFIED && p.GetStatus() != holdfastv1.Pool_ARCHIVED
}

func imageApplier() applier[*holdfastv1.Image] {
	return applier[*holdfastv1.Image]{
		kind: kinds.Image(),
		declared: func(i *holdfastv1.Image) *holdfastv1.Image {
			i = proto.CloneOf(i)
			i.CreatedAt, i.UpdatedAt, i.CreatedBy = nil, nil, ""
			for _, f := range []*holdfastv1.Image_File{i.GetDisk(), i.GetKernel(), i.GetInitrd()} {
				if f != nil {
					f.Copies = nil
				}
			}
			return i
		},
		plan: func(ctx context.Context, c *client.Client, t *target[*holdfastv1.Image]) (*holdfastv1.Image, error) {
			return c.Images().AddImage(ctx, &holdfastv1.AddImageRequest{Image: t.doc, Replace: true,
				ValidateOnly: true})
		},
		put: func(ctx context.Context, c *client.Client, t *target[*holdfastv1.Image]) error {
			_, err := c.Images().AddImage(ctx, &holdfastv1.AddImageRequest{Image: t.doc, Replace: true})
			return err
		},
	}
}

func planApplier() applier[*holdfastv1.Plan] {
	return applier[*holdfastv1.Plan]{
		kind: kinds.Plan(),
		declared: func(p *holdfastv1.Plan) *holdfastv1.Plan {
			return &holdfastv1.Plan{PlanId: p.GetPlanId(), DisplayName: p.GetDisplayName(), Steps: p.GetSteps()}
		},
		plan: func(ctx context.Context, c *client.Client, t *target[*holdfastv1.Plan]) (*holdfastv1.Plan, error) {
			return c.Plans().CreatePlan(ctx, &holdfastv1.CreatePlanRequest{Plan: t.doc, Replace: true,
				ValidateOnly: true})
		},
		put: func(ctx context.Context, c *client.Client, t *target[*holdfastv1.Plan]) error {
			_, err := c.Plans().CreatePlan(ctx, &holdfastv1.CreatePlanRequest{Plan: t.doc, Replace: true})
			return err
		},
	}
}

func machineApplier() applier[*holdfastv1.Machine] {
	return applier[*holdfastv1.Machine]{
		kind: kinds.Machine(),
		declared: func(m *holdfastv1.Machine) *holdfastv1.Machine {
			return &holdfastv1.Machine{MachineId: m.GetMachineId(), Spec: specOver(m.GetSpec(), nil),
				Labels: m.GetLabels()}
		},
		plan: func(_ context.Context, _ *client.Client, t *target[*holdfastv1.Machine]) (*holdfastv1.Machine, error) {
			return &holdfastv1.Machine{
				MachineId: t.doc.GetMachineId(),
				Spec:      specOver(t.live.GetSpec(), t.doc.GetSpec()),
				Labels:    labels(t.live.GetLabels(), t.doc.GetLabels()),
			}, nil
		},
		put: func(ctx context.Context, c *client.Client, t *target[*holdfastv1.Machine]) error {
			if !t.found {
				_, err := c.Machines().RegisterMachine(ctx, &holdfastv1.RegisterMachineRequest{Machine: t.doc})
				return err
			}
			mask := &fieldmaskpb.FieldMask{} // what others change meanwhile stays
			for _, change := range t.changes {
				mask.Paths = append(mask.Paths, change.Path)
			}
			_, err := c.Machines().UpdateMachine(ctx, &holdfastv1.UpdateMachineRequest{Machine: t.want,
				UpdateMask: mask})
			return err
		},
		check: fsm.NormalizeMachine,
	}
}

// specOver returns the stored spec with the fields of the document. MAC addresses are compared
// in the form that the server stores.
func specOver(live, doc *holdfastv1.MachineSpec) *holdfastv1.MachineSpec {
	out := &holdfastv1.MachineSpec{}
	proto.Merge(out, live)
	doc = proto.CloneOf(doc)
	for i, mac := range doc.GetMacAddresses() {
		doc.MacAddresses[i] = strings.ToLower(strings.ReplaceAll(mac, "-", ":"))
	}
	doc.ProtoReflect().Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		out.ProtoReflect().Set(f, v)
		return true
	})
	return out
}

// labels returns the stored labels with those of the document.
func labels(live, doc map[string]string) map[string]string {
	out := map[string]string{}
	maps.Copy(out, live)
	maps.Copy(out, doc)
	return out
}
