package fsm_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/fsm/fsmtest"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

func imageFile(digit string) *holdfastv1.Image_File {
	return &holdfastv1.Image_File{Sha256: strings.Repeat(digit, 64), SizeBytes: 100}
}

func diskImage(name string) *holdfastv1.Image {
	return &holdfastv1.Image{Name: name, Disk: imageFile("a")}
}

func TestValidateImage(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*holdfastv1.Image)
		want   []string // fields
	}{
		{"disk", func(*holdfastv1.Image) {}, nil},
		{"all three", func(i *holdfastv1.Image) {
			i.Kernel, i.Initrd, i.Cmdline, i.Arch = imageFile("b"), imageFile("c"), "console=ttyS0 quiet", "arm64"
		}, nil},
		{"kernel and initrd", func(i *holdfastv1.Image) {
			i.Kernel, i.Initrd, i.Disk = imageFile("b"), imageFile("c"),
				nil
		}, nil},
		{"a URL, and its size is not known",
			func(i *holdfastv1.Image) { i.Disk.Url, i.Disk.SizeBytes = "https://e.example/d?sig=1", 0 }, nil},
		{"no name", func(i *holdfastv1.Image) { i.Name = "" }, []string{"image.name"}},
		{"a name that is a path", func(i *holdfastv1.Image) { i.Name = "a/b" }, []string{"image.name"}},
		{"a name that leads up", func(i *holdfastv1.Image) { i.Name = ".." }, []string{"image.name"}},
		{"a name with a colon", func(i *holdfastv1.Image) { i.Name = "debian:13" }, []string{"image.name"}},
		{"the name of a path", func(i *holdfastv1.Image) { i.Name = "sha256" }, []string{"image.name"}},
		{"a long name", func(i *holdfastv1.Image) { i.Name = strings.Repeat("a", 65) }, []string{"image.name"}},
		{"nothing in it", func(i *holdfastv1.Image) { i.Disk = nil }, []string{"image.disk"}},
		{"a kernel alone", func(i *holdfastv1.Image) { i.Kernel, i.Disk = imageFile("b"), nil }, []string{"image.disk"}},
		{"an initrd without a kernel", func(i *holdfastv1.Image) { i.Initrd = imageFile("b") }, []string{"image.kernel"}},
		{"a format without a disk", func(i *holdfastv1.Image) {
			i.Kernel, i.Initrd, i.Disk, i.Format = imageFile("b"), imageFile("c"), nil, holdfastv1.Image_TAR
		}, []string{"image.format"}},
		{"a command line without a kernel", func(i *holdfastv1.Image) { i.Cmdline = "quiet" }, []string{"image.cmdline"}},
		{"a command line that breaks out of a script", func(i *holdfastv1.Image) {
			i.Kernel, i.Initrd,
				i.Cmdline = imageFile("b"), imageFile("c"), "a\nreboot"
		}, []string{"image.cmdline"}},
		{"a command line that iPXE expands", func(i *holdfastv1.Image) {
			i.Kernel, i.Initrd, i.Cmdline = imageFile("b"), imageFile("c"), "quiet url=${net0/mac}"
		}, []string{"image.cmdline"}},
		{"a command line with an operator of iPXE", func(i *holdfastv1.Image) {
			i.Kernel, i.Initrd, i.Cmdline = imageFile("b"), imageFile("c"), "quiet || reboot"
		}, []string{"image.cmdline"}},
		{"a command line with a comment", func(i *holdfastv1.Image) {
			i.Kernel, i.Initrd, i.Cmdline = imageFile("b"), imageFile("c"), "quiet #debug"
		}, []string{"image.cmdline"}},
		{"a command line with signs inside of words", func(i *holdfastv1.Image) {
			i.Kernel, i.Initrd = imageFile("b"), imageFile("c")
			i.Cmdline = "ds=nocloud;s=http://10.0.0.1/ root=LABEL=a&b rd.luks=1|2 x='#1' init=\"/sbin/x\" ~!$%^*"
		}, nil},
		{"another architecture", func(i *holdfastv1.Image) { i.Arch = "vax" }, []string{"image.arch"}},
		{"a long description", func(i *holdfastv1.Image) { i.Description = strings.Repeat("a", 1025) },
			[]string{"image.description"}},
		{"no sum", func(i *holdfastv1.Image) { i.Disk.Sha256 = "" }, []string{"image.disk.sha256"}},
		{"a sum in capitals", func(i *holdfastv1.Image) { i.Disk.Sha256 = strings.Repeat("A", 64) },
			[]string{"image.disk.sha256"}},
		{"an upload of no size", func(i *holdfastv1.Image) { i.Disk.SizeBytes = 0 }, []string{"image.disk.size_bytes"}},
		{"too big", func(i *holdfastv1.Image) { i.Disk.SizeBytes = 1<<40 + 1 }, []string{"image.disk.size_bytes"}},
		{"a file", func(i *holdfastv1.Image) { i.Disk.Url = "file:///etc/passwd" }, []string{"image.disk.url"}},
		{"a password", func(i *holdfastv1.Image) { i.Disk.Url = "https://joe:hunter2@e.example/d" },
			[]string{"image.disk.url"}},
		{"a fragment", func(i *holdfastv1.Image) { i.Disk.Url = "https://e.example/d#x" }, []string{"image.disk.url"}},
		{"no host", func(i *holdfastv1.Image) { i.Disk.Url = "https:///d" }, []string{"image.disk.url"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			i := diskImage("debian-13")
			tt.change(i)
			var got []string
			for _, f := range fsm.ValidateImage(fsm.NormalImage(i)) {
				got = append(got, f.Field)
				if strings.Contains(f.Description, "hunter2") {
					t.Errorf("%s: the password is told: %s", f.Field, f.Description)
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("fields (-want +got):\n%s", diff)
			}
		})
	}
}

func TestImages(t *testing.T) {
	p := fsmtest.NewPeer()
	p.Lead(1)
	do(t, p, &internalv1.PutImage{Image: diskImage("debian")})
	do(t, p, &internalv1.PutImage{Image: diskImage("debian")}) // a repetition is OK
	other := diskImage("debian")
	other.Disk = imageFile("b")
	refused(t, p, &internalv1.PutImage{Image: other}, fsm.AlreadyExists, "IMAGE_EXISTS")
	got, _ := p.View().Image("debian")
	want := &holdfastv1.Image{Name: "debian", Arch: "amd64", Format: holdfastv1.Image_RAW,
		Compression: holdfastv1.Image_NONE, Disk: imageFile("a")}
	if diff := cmp.Diff(want, got, protocmp.Transform(), protocmp.IgnoreFields(&holdfastv1.Image{}, "created_at",
		"updated_at", "created_by")); diff != "" {
		t.Errorf("image (-want +got):\n%s", diff)
	}
	do(t, p, &internalv1.PutImage{Image: other, Replace: true})
	for sum, want := range map[string]bool{"a": false, "b": true} {
		if _, ok := p.View().ImageFileBySum(strings.Repeat(sum, 64)); ok != want {
			t.Errorf("some image has the file %s: %v, want %v", sum, ok, want)
		}
	}
	do(t, p, &internalv1.PutImage{Image: diskImage("arch")})
	var names []string
	for i := range p.View().Images("") {
		names = append(names, i.GetName())
	}
	if !slices.Equal(names, []string{"arch", "debian"}) {
		t.Errorf("images: %q", names)
	}
	refused(t, p, &internalv1.DeleteImage{Name: "none"}, fsm.NotFound, "IMAGE_NOT_FOUND")
	do(t, p, &internalv1.DeleteImage{Name: "arch"})
	refused(t, p, &internalv1.DeleteImage{Name: "arch"}, fsm.NotFound, "IMAGE_NOT_FOUND")
	refused(t, p, &internalv1.PutImage{Image: &holdfastv1.Image{}}, fsm.InvalidArgument, "INVALID_FIELD")
}

// TestImageInUse tests an active run, with each way in which a step names its image.
func TestImageInUse(t *testing.T) {
	step := func(image string) *holdfastv1.Plan {
		return &holdfastv1.Plan{PlanId: "p",
			Steps: []*holdfastv1.Step{{Name: "s", Kind: &holdfastv1.Step_Repave{Repave: &holdfastv1.RepaveImage{Image: image}}}}}
	}
	for _, tt := range []struct {
		name   string
		plan   *holdfastv1.Plan
		params map[string]string
		labels map[string]string
		used   string
	}{
		{"the step says it", step("debian"), nil, map[string]string{"image": "y"}, "debian"},
		{"the run says it", step(""), map[string]string{"image": "debian"}, map[string]string{"image": "y"}, "debian"},
		{"the machine says it", step(""), nil, map[string]string{"image": "debian"}, "debian"},
		{"nobody says it", step(""), nil, nil, "default"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := fsmtest.NewPeer()
			p.Lead(1)
			for _, name := range []string{"debian", "default", "x", "y"} {
				do(t, p, &internalv1.PutImage{Image: diskImage(name)})
			}
			do(t, p, &internalv1.RegisterMachine{Machine: &holdfastv1.Machine{MachineId: "m", Labels: tt.labels,
				Spec: &holdfastv1.MachineSpec{Provider: "fake"}}})
			do(t, p, &internalv1.CreatePlan{Plan: tt.plan})
			do(t, p, &internalv1.StartRun{RunId: "r", MachineId: "m", RequestId: "q", PlanId: "p", Params: tt.params,
				CheckedProvider: "fake"})
			for _, name := range []string{"debian", "default", "x", "y"} {
				other := diskImage(name)
				other.Description = "another one"
				for _, op := range []proto.Message{&internalv1.PutImage{Image: other, Replace: true},
					&internalv1.DeleteImage{Name: name}} {
					if name == tt.used {
						err := refused(t, p, op, fsm.FailedPrecondition, fsm.ReasonImageInUse)
						if !strings.Contains(err.Message, `"r"`) {
							t.Errorf("the refusal does not name the run: %s", err.Message)
						}
						continue
					}
					do(t, p, op)
				}
			}
			do(t, p, &internalv1.CancelRun{RunId: "r"})
			do(t, p, &internalv1.DeleteImage{Name: tt.used})
		})
	}
}

// A change of an image looks neither at the active runs of other images nor at all sessions, so
// that it does not stop the peers of a large fleet.
func TestImageChangesScanNothing(t *testing.T) {
	p := fsmtest.NewPeer()
	for _, name := range []string{"debian", "default", "other"} {
		do(t, p, &internalv1.PutImage{Image: diskImage(name)})
	}
	plan := &holdfastv1.Plan{PlanId: "p", Steps: []*holdfastv1.Step{{Name: "s",
		Kind: &holdfastv1.Step_Repave{Repave: &holdfastv1.RepaveImage{}}}}}
	do(t, p, &internalv1.CreatePlan{Plan: plan})
	runs := 0
	allocs := func(n int) float64 {
		var batch []*internalv1.Command
		for ; runs < n; runs++ {
			id := fmt.Sprintf("m-%d", runs)
			batch = append(batch, fsmtest.Command(&internalv1.RegisterMachine{Machine: &holdfastv1.Machine{MachineId: id,
				Labels: map[string]string{"image": "other"}, Spec: &holdfastv1.MachineSpec{Provider: "fake"}}}),
				fsmtest.Command(&internalv1.StartRun{RunId: "r" + id, MachineId: id, RequestId: "q", PlanId: "p",
					CheckedProvider: "fake"}))
		}
		for _, r := range p.Propose(batch...) {
			if r.Err != nil {
				t.Fatal(r.Err)
			}
		}
		i := 0
		return testing.AllocsPerRun(20, func() {
			image := diskImage("debian")
			image.Description = fmt.Sprint(n, i)
			i++
			if r := p.Do(&internalv1.PutImage{Image: image, Replace: true}); r.Err != nil {
				t.Fatal(r.Err)
			}
		})
	}
	few, many := allocs(10), allocs(1000)
	if many > 2*few+50 {
		t.Errorf("got %.0f allocations with 1000 active runs, and %.0f with 10", many, few)
	}
	refused(t, p, &internalv1.DeleteImage{Name: "other"}, fsm.FailedPrecondition, fsm.ReasonImageInUse)
}

// The label of a machine chooses the image when the run starts. A later label does not change what
// the run installs.
func TestImageOfARunIsFixed(t *testing.T) {
	p := fsmtest.NewPeer()
	for _, name := range []string{"debian", "other"} {
		do(t, p, &internalv1.PutImage{Image: diskImage(name)})
	}
	plan := &holdfastv1.Plan{PlanId: "p", Steps: []*holdfastv1.Step{{Name: "s",
		Kind: &holdfastv1.Step_Repave{Repave: &holdfastv1.RepaveImage{}}}}}
	do(t, p, &internalv1.CreatePlan{Plan: plan})
	m := &holdfastv1.Machine{MachineId: "m", Labels: map[string]string{"image": "debian"},
		Spec: &holdfastv1.MachineSpec{Provider: "fake"}}
	do(t, p, &internalv1.RegisterMachine{Machine: m})
	run := do(t, p, &internalv1.StartRun{RunId: "r", MachineId: "m", RequestId: "q", PlanId: "p",
		CheckedProvider: "fake"}).(*holdfastv1.Run)
	m.Labels["image"] = "other"
	m = do(t, p, &internalv1.UpdateMachine{Machine: m, Paths: []string{"labels"}}).(*holdfastv1.Machine)
	if got := fsm.ImageOf(plan.GetSteps()[0].GetRepave(), run, m); run.GetImage() != "debian" || got != "debian" {
		t.Errorf("got %q, and %q of the run, want debian", got, run.GetImage())
	}
	do(t, p, &internalv1.DeleteImage{Name: "other"})
	refused(t, p, &internalv1.DeleteImage{Name: "debian"}, fsm.FailedPrecondition, fsm.ReasonImageInUse)
}
