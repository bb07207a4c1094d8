package runs

import (
	"fmt"
	"iter"
	"strings"

	"github.com/holdfast-metal/holdfast/fsm/internal/core"
	"github.com/holdfast-metal/holdfast/fsm/internal/images"
	"github.com/holdfast-metal/holdfast/fsm/internal/lex"
	"github.com/holdfast-metal/holdfast/fsm/internal/refusal"
	"github.com/holdfast-metal/holdfast/fsm/internal/schema"
	"github.com/holdfast-metal/holdfast/fsm/internal/sessions"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// installerName is the image that writes all others. Every open session has booted it or
// will.
const installerName = "installer"

// maxImages bounds the number of images. Every peer stores all of them, and checks for each
// whether it has its files.
const maxImages = 10_000

func imageNotFound(name string) *refusal.Error {
	return refusal.New(refusal.NotFound, "IMAGE_NOT_FOUND", "image %q not found", lex.Ident(name)).
		With("image", lex.Ident(name))
}

// PutImage stores an image. It does not replace one that an active run installs.
func PutImage(t *core.Tx, c *internalv1.PutImage) (*holdfastv1.Image, *refusal.Error) {
	in := images.Normal(c.GetImage())
	if err := refusal.Invalid(images.Validate(in)); err != nil {
		return nil, err
	}
	in.CreatedAt, in.UpdatedAt, in.CreatedBy = t.Now, t.Now, lex.Clip(t.Command.GetPrincipal(), core.MaxPrincipal)
	old, exists := t.Images.Get(in.GetName())
	switch {
	case exists && images.Same(old, in):
		return old, nil
	case exists && !c.GetReplace():
		return nil, images.CheckReplace(old, false)
	case exists:
		if err := checkImageUnused(t, in.GetName()); err != nil {
			return nil, err
		}
		in.CreatedAt = old.GetCreatedAt()
	case t.Images.Len() >= maxImages:
		return nil, refusal.New(refusal.FailedPrecondition, "TOO_MANY_IMAGES",
			"there are %d images already, the maximum: delete some that no run installs", maxImages)
	}
	t.Images.Put(in)
	return in, nil
}

// DeleteImage deletes an image that no active run installs.
func DeleteImage(t *core.Tx, c *internalv1.DeleteImage) *refusal.Error {
	if !t.Images.Has(c.GetName()) {
		return imageNotFound(c.GetName())
	}
	if err := checkImageUnused(t, c.GetName()); err != nil {
		return err
	}
	t.Images.Delete(c.GetName())
	return nil
}

// maxInUse bounds the sessions that an error names.
const maxInUse = 5

// checkImageUnused returns an error if an open install session uses the image, or an active
// run has a step that installs it. A session keeps the name of the image from when it was
// opened.
func checkImageUnused(t *core.Tx, name string) *refusal.Error {
	img, _ := t.Images.Get(name)
	key := schema.NameKey(name)
	// An installer that cannot boot may be replaced: open sessions wait for that.
	if (name == installerName || name == images.Name(installerName, img.GetArch())) &&
		img.GetKernel() != nil && img.GetInitrd() != nil {
		key = "" // each session boots it
	}
	var open []string
	for _, s := range t.Installs.Scan(schema.InstallsOpen, key, "") {
		if len(open) == maxInUse {
			open = append(open, "others")
			break
		}
		i := s.GetInstall()
		open = append(open,
			fmt.Sprintf("%s (run %s, %s)", i.GetMachineId(), i.GetRunId(), sessions.StageName(i.GetStage())))
	}
	if len(open) > 0 {
		return refusal.New(refusal.FailedPrecondition, refusal.ReasonImageInUse,
			"image %q is in use by the install sessions of %s: wait for the runs, or cancel them", name,
			strings.Join(open, ", ")).With("image", name)
	}
	if run := installing(t, name); run != nil {
		return refusal.New(refusal.FailedPrecondition, refusal.ReasonImageInUse,
			"image %q is in use: run %q of machine %q installs it: wait for the run, or cancel it",
			name, run.GetRunId(), run.GetMachineId()).With("image", name).With("run_id", run.GetRunId())
	}
	return nil
}

// installing returns an active run that installs the image, or nil.
func installing(t *core.Tx, name string) *holdfastv1.Run {
	if run, ok := t.Runs.Lookup(schema.RunsByImage, schema.NameKey(name)); ok {
		return run
	}
	for _, plan := range t.Plans.Scan(schema.PlansByImage, schema.NameKey(name), "") {
		if run, ok := t.Runs.Lookup(schema.RunsByPlan, schema.NameKey(plan.GetPlanId())); ok {
			return run
		}
	}
	return nil
}

// Image returns an image.
func (v *View) Image(name string) (*holdfastv1.Image, bool) { return v.s.Images.Get(name) }

// Images returns the images with a name above after, by name.
func (v *View) Images(after string) iter.Seq[*holdfastv1.Image] {
	return v.s.Images.Ascend("", after)
}

// ImageFileBySum returns the file of an image with a SHA-256.
func (v *View) ImageFileBySum(sum string) (*holdfastv1.Image_File, bool) {
	image, ok := v.s.Images.Lookup(schema.ImagesByFile, sum)
	if !ok {
		return nil, false
	}
	var found *holdfastv1.Image_File
	for _, f := range images.Files(image) {
		// If the image has the same bytes twice, prefer the file with a URL.
		if f.GetSha256() == sum && (found == nil || found.GetUrl() == "") {
			found = f
		}
	}
	return found, found != nil
}

// ReasonImageArch is the reason for refusing to install an image of another architecture.
const ReasonImageArch = "IMAGE_ARCH"

// ImageFor returns the variant of an image for an architecture: the one with the architecture
// in its name, else the one with the plain name if its architecture matches.
func (v *View) ImageFor(name, arch string) (*holdfastv1.Image, bool) {
	if i, ok := v.s.Images.Get(images.Name(name, arch)); ok && i.GetArch() == arch {
		return i, true
	}
	if i, ok := v.s.Images.Get(name); ok && i.GetArch() == arch {
		return i, true
	}
	return nil, false
}

// checkImageArch refuses a run that would write an image of another architecture to the
// machine. An unknown architecture is accepted.
func checkImageArch(t *core.Tx, m *holdfastv1.Machine, plan *holdfastv1.Plan, run *holdfastv1.Run) *refusal.Error {
	arch := images.ArchOf(m.GetNode().GetArch())
	if arch == "" {
		return nil
	}
	for _, s := range plan.GetSteps() {
		if s.GetRepave() == nil {
			continue
		}
		name := images.Of(s.GetRepave(), run, m)
		if i, ok := t.Images.Get(name); ok && i.GetDisk() != nil && i.GetArch() != arch {
			return refusal.New(refusal.FailedPrecondition, ReasonImageArch,
				"step %q of plan %q installs image %q, which is for %s, and machine %q is %s: name an image for %s",
				s.GetName(), plan.GetPlanId(), name, i.GetArch(), m.GetMachineId(), arch, arch).
				With("image", name).With("machine_id", m.GetMachineId())
		}
	}
	return nil
}
