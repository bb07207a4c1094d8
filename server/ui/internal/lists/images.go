package lists

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"google.golang.org/grpc"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/ui/internal/display"
)

func images() Kind {
	return Kind{
		Name: "images", Title: "Images", One: "image", Many: "images",
		Create:  "holdfast image add debian-13 --disk debian-13-genericcloud-amd64.raw",
		Note:    "To see which peers have the files of an image: `holdfast image get IMAGE`",
		Columns: []string{"Image", "Description", "Arch", "Disk", "Files", "Source", "Updated", "By", "Kernel options"},
		Read: func(ctx context.Context, c grpc.ClientConnInterface, q Query) (Part, error) {
			resp, err := holdfastv1.NewImageServiceClient(c).ListImages(ctx, &holdfastv1.ListImagesRequest{
				PageSize: q.Size, PageToken: q.Page,
			})
			return Part{rowsOf(resp.GetImages(), imageRow), resp.GetNextPageToken()}, err
		},
	}
}

func imageRow(i *holdfastv1.Image) Row {
	format := ""
	if i.GetDisk() != nil {
		format = display.Label(i.GetFormat())
		if c := i.GetCompression(); c > holdfastv1.Image_NONE {
			format += "+" + display.Label(c)
		}
	}
	var files, sources []string
	for _, f := range []struct {
		name string
		file *holdfastv1.Image_File
	}{{"disk", i.GetDisk()}, {"kernel", i.GetKernel()}, {"initrd", i.GetInitrd()}} {
		if f.file == nil {
			continue
		}
		size := ""
		if n := f.file.GetSizeBytes(); n > 0 { // 0: unknown
			size = " " + display.Bytes(n)
		}
		files = append(files, f.name+size)
		sources = append(sources, cmp.Or(f.file.GetUrl(), f.name+" uploaded"))
	}
	return Row{i.GetName(), []display.Cell{
		display.ID(i.GetName()),
		display.Long(i.GetDescription()),
		display.Text(i.GetArch()),
		display.Text(format),
		display.Text(strings.Join(files, ", ")),
		display.Long(strings.Join(sources, ", ")),
		display.When(i.GetUpdatedAt()),
		display.Text(i.GetCreatedBy()),
		display.Long(i.GetCmdline()),
	}}
}

// ended is the filter of the installs page for sessions that have ended.
const ended = "all"

func installs() Kind {
	return Kind{
		Name: "installs", Title: "Installs", One: "install session", Many: "install sessions",
		Hints:  []Hint{{"open", ""}, {"the last of each machine", ended}},
		Create: "holdfast run start MACHINE --type REPAVE --param image=debian-13",
		Note:   "A step that installs an image opens the session of its machine. To follow one: `holdfast install watch MACHINE`",
		Columns: []string{
			"Machine", "Stage", "Done", "Image", "Run", "Attempt", "Stage since", "Last seen", "Address", "Boots", "Details",
		},
		Read: func(ctx context.Context, c grpc.ClientConnInterface, q Query) (Part, error) {
			resp, err := holdfastv1.NewInstallServiceClient(c).ListInstalls(ctx, &holdfastv1.ListInstallsRequest{
				PageSize: q.Size, PageToken: q.Page, All: q.Filter == ended,
			})
			return Part{rowsOf(resp.GetInstalls(), installRow), resp.GetNextPageToken()}, err
		},
	}
}

func installRow(i *holdfastv1.Install) Row {
	like := "running"
	switch {
	case i.GetStage() == holdfastv1.Install_FAILED:
		like = "failed"
	case i.GetStage() == holdfastv1.Install_BOOTED_DISK:
		like = "succeeded"
	case i.GetClosedAt() != nil:
		like = ""
	}
	stage := display.Badge(display.Label(i.GetStage()), like)
	if i.GetClosedAt() != nil {
		stage = stage.And(display.Faint("ended")).And(display.When(i.GetClosedAt()))
	}
	done := display.Number(i.GetProgress())
	done.Parts[0].Text += " %"
	return Row{i.GetMachineId(), []display.Cell{
		display.Machines(i.GetMachineId()),
		stage,
		done,
		display.Text(cmp.Or(i.GetImage(), "none: only erases")),
		display.To(i.GetRunId(), display.RunPath(i.GetRunId())).And(display.Faint(i.GetStep())),
		display.Number(i.GetAttempt()),
		display.When(i.GetStageSince()),
		display.When(i.GetLastSeenAt()),
		display.Text(i.GetIpAddress()),
		display.Number(i.GetBoots()),
		display.Long(cmp.Or(i.GetError(), i.GetNote(), i.GetDetail(), disk(i))),
	}}
}

// disk describes the rule that selects the disk, or returns "".
func disk(i *holdfastv1.Install) string {
	if i.GetDisk() == "" {
		return ""
	}
	return fmt.Sprintf("onto the disk %s", i.GetDisk())
}
