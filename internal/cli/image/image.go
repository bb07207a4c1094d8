package image

import (
	"cmp"
	"context"

	"github.com/spf13/cobra"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/cli/kinds"
	"github.com/holdfast-metal/holdfast/internal/cli/output"
	"github.com/holdfast-metal/holdfast/internal/cli/render"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Command returns the commands of images.
func Command(a *app.App) *cobra.Command {
	return app.Parent(&cobra.Command{
		Use: "image", Aliases: []string{"images"},
		Short: "Manage images that machines are installed with",
		Long: `Manage images that machines are installed with. An image has a disk, or a kernel and an initrd, or all three; each is a URL or
an uploaded file. Every peer keeps all files of all images and serves them at http://PEER:7401/images/NAME/{disk,kernel,initrd}.
Anyone who can reach that port can read them: put no secrets into images.`,
		Example: `  holdfast image add debian-13 --disk debian-13-genericcloud-amd64.raw
  holdfast image add debian-13 --disk https://images.example/debian-13.raw.zst --sha256 $SUM
  holdfast image list
  holdfast image get debian-13`,
	}, imageAdd(a), imageApply(a), imageList(a), imageGet(a), imageDelete(a))
}

// copiesOf lists the peers that have each file.
func copiesOf(i *holdfastv1.Image) *render.Table {
	t := render.NewTable("FILE", "SHA256", "PEER", "HAS")
	for part, f := range kinds.ImageFiles(i) {
		sum := f.GetSha256()
		for _, c := range f.GetCopies() {
			has := "all"
			switch {
			case c.GetPresent():
			case c.GetReceivedBytes() > 0 || c.GetError() == "":
				has = cmp.Or(app.ByteSize(c.GetReceivedBytes()), "nothing yet")
				if f.GetSizeBytes() > 0 {
					has += " of " + app.ByteSize(f.GetSizeBytes())
				}
			default:
				has = "nothing"
			}
			if c.GetError() != "" && !c.GetPresent() {
				has += ": " + c.GetError()
			}
			t.Row(part, sum[:min(12, len(sum))], c.GetPeerId(), has)
			part, sum = "", ""
		}
	}
	return t
}

func imageList(a *app.App) *cobra.Command {
	return output.ListCommand(a, output.Lister[*holdfastv1.Image]{
		Short: "List images by name", Example: "  holdfast image list\n  holdfast image list -o wide",
		Kind: kinds.Image(),
	})
}

func imageGet(a *app.App) *cobra.Command {
	return output.GetCommand(a, output.Getter[*holdfastv1.Image]{
		Short:   "Show an image, and which peers have its files",
		Example: "  holdfast image get debian-13\n  holdfast image get debian-13 -o yaml",
		Kind:    kinds.Image(),
		More:    func(i *holdfastv1.Image) []*render.Table { return []*render.Table{copiesOf(i)} },
	})
}

func imageDelete(a *app.App) *cobra.Command {
	return output.EachCommand(a, output.Each[*holdfastv1.Image]{
		Kind:  kinds.Image(),
		Short: "Delete images that no active run installs", Example: "  holdfast image delete debian-12",
		Long: "Delete images that no active run installs. Their files go a day later, unless another image has them too.",
		Do: func(ctx context.Context, c *client.Client, id string) error {
			_, err := c.Images().DeleteImage(ctx, &holdfastv1.DeleteImageRequest{Name: id})
			return err
		},
	})
}
