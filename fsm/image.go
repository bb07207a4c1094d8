package fsm

import (
	"fmt"
	"iter"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/fsm/internal/lex"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// imagesByFile is the index of images by the sums of their files.
const imagesByFile = 0

// installerName is the image that writes all others. Every open session has booted it or
// will.
const installerName = "installer"

// maxImages bounds the number of images. Every peer stores all of them, and checks for each
// whether it has its files.
const maxImages = 10_000

func imageSchema() *schema[*holdfastv1.Image] {
	return &schema[*holdfastv1.Image]{
		kind:    internalv1.SnapshotRecord_IMAGES,
		key:     (*holdfastv1.Image).GetName,
		indexes: 1,
		index: func(i *holdfastv1.Image, add func(int, string)) {
			var sums []string
			for _, f := range ImageFiles(i) {
				if !slices.Contains(sums, f.GetSha256()) {
					sums = append(sums, f.GetSha256())
					add(imagesByFile, f.GetSha256())
				}
			}
		},
	}
}

// ImageFiles returns the files that an image has, with their part: disk, kernel or initrd.
func ImageFiles(i *holdfastv1.Image) iter.Seq2[string, *holdfastv1.Image_File] {
	return func(yield func(string, *holdfastv1.Image_File) bool) {
		for _, part := range ImageParts() {
			if f := ImageFile(i, part); f != nil && !yield(part, f) {
				return
			}
		}
	}
}

// ImageParts returns the parts of images, as used in paths.
func ImageParts() []string { return []string{"disk", "kernel", "initrd"} }

// ImageFile returns one file of an image, or nil.
func ImageFile(i *holdfastv1.Image, part string) *holdfastv1.Image_File {
	switch part {
	case "disk":
		return i.GetDisk()
	case "kernel":
		return i.GetKernel()
	case "initrd":
		return i.GetInitrd()
	}
	return nil
}

func imageNotFound(name string) *Error {
	return refuse(NotFound, "IMAGE_NOT_FOUND", "image %q not found", lex.Ident(name)).With("image", lex.Ident(name))
}

// putImage stores an image. It does not replace one that an active run installs.
func (t *tx) putImage(c *internalv1.PutImage) (*holdfastv1.Image, *Error) {
	in := NormalImage(c.GetImage())
	if err := Invalid(ValidateImage(in)); err != nil {
		return nil, err
	}
	in.CreatedAt, in.UpdatedAt, in.CreatedBy = t.now, t.now, lex.Clip(t.cmd.GetPrincipal(), maxAuditThing)
	old, exists := t.images.get(in.GetName())
	switch {
	case exists && SameImage(old, in):
		return old, nil
	case exists && !c.GetReplace():
		return nil, CheckReplaceImage(old, false)
	case exists:
		if err := t.checkImageUnused(in.GetName()); err != nil {
			return nil, err
		}
		in.CreatedAt = old.GetCreatedAt()
	case t.images.len() >= maxImages:
		return nil, refuse(FailedPrecondition, "TOO_MANY_IMAGES",
			"there are %d images already, the maximum: delete some that no run installs", maxImages)
	}
	t.images.put(in)
	return in, nil
}

// CheckReplaceImage returns an error if an image may not be replaced.
func CheckReplaceImage(old *holdfastv1.Image, replace bool) *Error {
	if replace {
		return nil
	}
	return refuse(AlreadyExists, "IMAGE_EXISTS",
		"image %q exists with other content: use a new name, or replace it", old.GetName()).
		With("image", old.GetName())
}

// NormalImage returns a copy of an image with its defaults, and without the fields that the
// server sets.
func NormalImage(i *holdfastv1.Image) *holdfastv1.Image {
	i = proto.CloneOf(i)
	if i == nil {
		i = &holdfastv1.Image{}
	}
	if i.GetArch() == "" {
		i.Arch = "amd64"
	}
	if i.GetDisk() != nil && i.GetFormat() == holdfastv1.Image_FORMAT_UNSPECIFIED {
		i.Format = holdfastv1.Image_RAW
	}
	if i.GetDisk() != nil && i.GetCompression() == holdfastv1.Image_COMPRESSION_UNSPECIFIED {
		i.Compression = holdfastv1.Image_NONE
	}
	for _, f := range ImageFiles(i) {
		f.Copies = nil
	}
	i.CreatedAt, i.UpdatedAt, i.CreatedBy = nil, nil, ""
	return i
}

// SameImage reports whether two images are equal except for the fields that the server sets.
func SameImage(a, b *holdfastv1.Image) bool { return proto.Equal(NormalImage(a), NormalImage(b)) }

// deleteImage deletes an image that no active run installs.
func (t *tx) deleteImage(c *internalv1.DeleteImage) *Error {
	if !t.images.has(c.GetName()) {
		return imageNotFound(c.GetName())
	}
	if err := t.checkImageUnused(c.GetName()); err != nil {
		return err
	}
	t.images.delete(c.GetName())
	return nil
}

// maxInUse bounds the sessions listed in an error.
const maxInUse = 5

// checkImageUnused returns an error if an open install session uses the image, or an active
// run has a step that installs it. A session keeps the name of the image from when it was
// opened, since the machine's label may have changed. The check scans all sessions and active
// runs, which is fine because images change rarely.
func (t *tx) checkImageUnused(name string) *Error {
	img, _ := t.images.get(name)
	// An installer that cannot boot may be replaced: open sessions wait for that.
	boots := (name == installerName || name == ImageName(installerName, img.GetArch())) &&
		img.GetKernel() != nil && img.GetInitrd() != nil
	var open []string
	for s := range t.installs.ascend("", "") {
		if i := s.GetInstall(); InstallOpen(i) && (i.GetImage() == name || boots) {
			open = append(open, fmt.Sprintf("%s (run %s, %s)", i.GetMachineId(), i.GetRunId(), StageName(i.GetStage())))
		}
	}
	if n := len(open); n > 0 {
		more := ""
		if n > maxInUse {
			open, more = open[:maxInUse], fmt.Sprintf(" and %d more", n-maxInUse)
		}
		return refuse(FailedPrecondition, ReasonImageInUse,
			"image %q is in use by the install sessions of %s%s: wait for the runs, or cancel them", name,
			strings.Join(open, ", "), more).
			With("image", name).With("sessions", fmt.Sprint(n))
	}
	for _, run := range t.runs.scan(runsActive, "", "") {
		if t.runInstalls(run, name) {
			return refuse(FailedPrecondition, ReasonImageInUse,
				"image %q is in use: run %q of machine %q installs it: wait for the run, or cancel it",
				name, run.GetRunId(), run.GetMachineId()).With("image", name).With("run_id", run.GetRunId())
		}
	}
	return nil
}

func (t *tx) runInstalls(run *holdfastv1.Run, name string) bool {
	plan, _ := t.plan(run.GetPlanId())
	machine, _ := t.machines.get(run.GetMachineId())
	return slices.ContainsFunc(plan.GetSteps(), func(s *holdfastv1.Step) bool {
		return s.GetRepave() != nil && ImageOf(s.GetRepave(), run, machine) == name
	})
}

// ImageOf returns the name of the image that a step of a run installs: its own, else the
// run's parameter, else the machine's label, else "default".
func ImageOf(s *holdfastv1.RepaveImage, run *holdfastv1.Run, m *holdfastv1.Machine) string {
	for _, name := range []string{s.GetImage(), run.GetParams()["image"], m.GetLabels()["image"]} {
		if name != "" {
			return name
		}
	}
	return "default"
}

// Image returns an image.
func (v *View) Image(name string) (*holdfastv1.Image, bool) { return v.images.get(name) }

// Images returns the images with a name above after, by name.
func (v *View) Images(after string) iter.Seq[*holdfastv1.Image] { return v.images.ascend("", after) }

// ImageFileBySum returns the file of an image with a SHA-256.
func (v *View) ImageFileBySum(sum string) (*holdfastv1.Image_File, bool) {
	image, ok := v.images.lookup(imagesByFile, sum)
	if !ok {
		return nil, false
	}
	var found *holdfastv1.Image_File
	for _, f := range ImageFiles(image) {
		// If the image has the same bytes twice, prefer the file with a URL.
		if f.GetSha256() == sum && (found == nil || found.GetUrl() == "") {
			found = f
		}
	}
	return found, found != nil
}
