package kinds

import (
	"context"
	"iter"
	"strings"
	"time"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/cli/output"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Image returns the kind of images.
func Image() output.Kind[*holdfastv1.Image] {
	return output.Kind[*holdfastv1.Image]{
		Noun: "image", List: "images",
		Name:   (*holdfastv1.Image).GetName,
		Header: []string{"IMAGE", "ARCH", "FORMAT", "FILES", "SIZE", "UPDATED"},
		Wide:   []string{"BY", "CMDLINE", "DESCRIPTION"},
		Row: func(i *holdfastv1.Image, now time.Time) []any {
			var parts []string
			var size int64
			for part, f := range ImageFiles(i) {
				parts = append(parts, part)
				size += f.GetSizeBytes()
			}
			return []any{
				i.GetName(), i.GetArch(), imageFormat(i), strings.Join(parts, ","), app.ByteSize(size),
				app.Age(now, i.GetUpdatedAt()),
				i.GetCreatedBy(), i.GetCmdline(), i.GetDescription(),
			}
		},
		Page: func(ctx context.Context, c *client.Client, q output.Query) ([]*holdfastv1.Image, string, error) {
			r, err := c.Images().ListImages(ctx, &holdfastv1.ListImagesRequest{PageSize: q.Size, PageToken: q.Token})
			return r.GetImages(), r.GetNextPageToken(), err
		},
		Get: getImage,
	}
}

// ImageFiles returns the files of an image by kind.
func ImageFiles(i *holdfastv1.Image) iter.Seq2[string, *holdfastv1.Image_File] {
	return func(yield func(string, *holdfastv1.Image_File) bool) {
		_ = (i.GetDisk() == nil || yield("disk", i.GetDisk())) &&
			(i.GetKernel() == nil || yield("kernel", i.GetKernel())) &&
			(i.GetInitrd() == nil || yield("initrd", i.GetInitrd()))
	}
}

// imageFormat returns the format of the disk, such as qcow2 or raw+zstd.
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

func getImage(ctx context.Context, c *client.Client, id string) (*holdfastv1.Image, error) {
	return c.Images().GetImage(ctx, &holdfastv1.GetImageRequest{Name: id})
}
