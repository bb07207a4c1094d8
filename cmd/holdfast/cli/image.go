package cli

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/cmd/holdfast/cli/render"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

func (a *app) image() *cobra.Command {
	return parent(&cobra.Command{
		Use: "image", Aliases: []string{"images"},
		Short: "What machines are installed with: disks, kernels, initrds",
		Long: `What machines are installed with. An image has a disk, or a kernel and an initrd, or all three; each is a URL, or a file that
is uploaded. Every peer keeps all files of all images and serves them to machines at http://PEER:7401/images/NAME/{disk,kernel,initrd}.
Whoever reaches that port can read them: keep secrets out of images.`,
		Example: `  holdfast image add debian-13 --disk debian-13.qcow2
  holdfast image add debian-13 --disk https://images.example/debian-13.raw.zst --sha256 $SUM
  holdfast image list
  holdfast image get debian-13`,
	}, a.imageAdd(), a.imageApply(), a.imageList(), a.imageGet(), a.imageDelete())
}

func imageKind() kind[*holdfastv1.Image] {
	return kind[*holdfastv1.Image]{
		list:   "images",
		name:   (*holdfastv1.Image).GetName,
		header: []string{"IMAGE", "ARCH", "FORMAT", "FILES", "SIZE", "UPDATED"},
		wide:   []string{"BY", "CMDLINE", "DESCRIPTION"},
		row: func(i *holdfastv1.Image, now time.Time, wide bool) []render.Text {
			var parts []string
			var size int64
			for part, f := range imageFiles(i) {
				parts = append(parts, part)
				size += f.GetSizeBytes()
			}
			row := []render.Text{plain(i.GetName()), plain(i.GetArch()), plain(imageFormat(i)), plain(strings.Join(parts, ",")), plain(byteSize(size)),
				plain(render.Ago(now, at(i.GetUpdatedAt())))}
			if wide {
				row = append(row, plain(i.GetCreatedBy()), plain(i.GetCmdline()), plain(i.GetDescription()))
			}
			return row
		},
	}
}

// imageFiles gives the files of an image, by what they are.
func imageFiles(i *holdfastv1.Image) iter.Seq2[string, *holdfastv1.Image_File] {
	return func(yield func(string, *holdfastv1.Image_File) bool) {
		_ = (i.GetDisk() == nil || yield("disk", i.GetDisk())) &&
			(i.GetKernel() == nil || yield("kernel", i.GetKernel())) &&
			(i.GetInitrd() == nil || yield("initrd", i.GetInitrd()))
	}
}

// imageFormat is that of the disk: qcow2, or raw+zstd.
func imageFormat(i *holdfastv1.Image) string {
	if i.GetDisk() == nil {
		return ""
	}
	f := strings.ToLower(i.GetFormat().String())
	if c := i.GetCompression(); c == holdfastv1.Image_GZIP || c == holdfastv1.Image_ZSTD {
		f += "+" + strings.ToLower(c.String())
	}
	return f
}

// byteSize writes a number of bytes for people; nothing for 0, which is not known.
func byteSize(n int64) string {
	const units = "KMGT"
	if n == 0 {
		return ""
	}
	if n < 1<<10 {
		return fmt.Sprintf("%d B", n)
	}
	v, u := float64(n)/1024, 0
	for v >= 1024 && u < len(units)-1 {
		v, u = v/1024, u+1
	}
	return fmt.Sprintf("%.1f %ciB", v, units[u])
}

// copiesOf shows which peer has what.
func copiesOf(i *holdfastv1.Image) *render.Table {
	t := render.NewTable("FILE", "SHA256", "PEER", "HAS")
	for part, f := range imageFiles(i) {
		sum := f.GetSha256()
		for _, c := range f.GetCopies() {
			has := "all"
			switch {
			case c.GetPresent():
			case c.GetReceivedBytes() > 0 || c.GetError() == "":
				has = first(byteSize(c.GetReceivedBytes()), "nothing yet")
				if f.GetSizeBytes() > 0 {
					has += " of " + byteSize(f.GetSizeBytes())
				}
			default:
				has = "nothing"
			}
			if c.GetError() != "" && !c.GetPresent() {
				has += ": " + c.GetError()
			}
			t.Row(plain(part), plain(sum[:min(12, len(sum))]), plain(c.GetPeerId()), plain(has))
			part, sum = "", ""
		}
	}
	return t
}

func (a *app) imageList() *cobra.Command {
	var l listing
	cmd := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Args: exactly(),
		Short:   "List images by name",
		Example: "  holdfast image list\n  holdfast image list -o wide",
		RunE: a.online(func(ctx context.Context, c *client.Client, _ []string) error {
			items, more, err := collect(l.limit, func(size int32, token string) ([]*holdfastv1.Image, string, error) {
				r, err := c.Images().ListImages(ctx, &holdfastv1.ListImagesRequest{PageSize: size, PageToken: token})
				return r.GetImages(), r.GetNextPageToken(), err
			})
			if err != nil {
				return failed(err, "list images")
			}
			if more {
				a.note("note: there are more than these %d: raise --limit", l.limit)
			}
			return printList(a, &l.output, imageKind(), items)
		}),
	}
	l.register(cmd, "")
	return cmd
}

func (a *app) imageGet() *cobra.Command {
	var o output
	cmd := &cobra.Command{
		Use: "get IMAGE", Args: exactly("IMAGE"), ValidArgsFunction: a.complete(imageNames),
		Short:   "Show an image, and which peers have its files",
		Example: "  holdfast image get debian-13\n  holdfast image get debian-13 -o yaml",
		RunE: a.online(func(ctx context.Context, c *client.Client, args []string) error {
			i, err := c.Images().GetImage(ctx, &holdfastv1.GetImageRequest{Name: args[0]})
			if err != nil {
				return failed(err, "get image %s", args[0])
			}
			return printOne(a, &o, imageKind(), i, copiesOf(i))
		}),
	}
	o.register(cmd)
	return cmd
}

func (a *app) imageDelete() *cobra.Command {
	return &cobra.Command{
		Use: "delete IMAGE...", Args: atLeast("IMAGE"), ValidArgsFunction: a.complete(imageNames, imageNames),
		Short:   "Delete images that no active run installs",
		Long:    "Delete images that no active run installs. Their files go a day later, unless another image has them too.",
		Example: "  holdfast image delete debian-12",
		RunE: a.online(func(ctx context.Context, c *client.Client, args []string) error {
			var errs []error
			for _, name := range args {
				if _, err := c.Images().DeleteImage(ctx, &holdfastv1.DeleteImageRequest{Name: name}); err != nil {
					errs = append(errs, failed(err, "delete image %s", name))
					continue
				}
				a.note("deleted image %s", name)
			}
			return several(errs, len(args), "delete images")
		}),
	}
}

func imageNames(ctx context.Context, c *client.Client) []string {
	r, err := c.Images().ListImages(ctx, &holdfastv1.ListImagesRequest{PageSize: pageSize})
	if err != nil {
		return nil
	}
	return ids(r.GetImages(), (*holdfastv1.Image).GetName)
}
