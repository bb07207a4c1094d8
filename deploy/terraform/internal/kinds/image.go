package kinds

import (
	"context"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/deploy/terraform/internal/crud"
	"github.com/holdfast-metal/holdfast/deploy/terraform/internal/values"
	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// image is the model of holdfast_image, which is replaced as a whole: an omitted attribute has its
// default.
type image struct {
	Name        types.String `tfsdk:"name"`
	Description types.String `tfsdk:"description"`
	Arch        types.String `tfsdk:"arch"`
	Format      types.String `tfsdk:"format"`
	Compression types.String `tfsdk:"compression"`
	Disk        types.Object `tfsdk:"disk"`
	Kernel      types.Object `tfsdk:"kernel"`
	Initrd      types.Object `tfsdk:"initrd"`
	Cmdline     types.String `tfsdk:"cmdline"`
}

func imageKind() crud.Kind[image] {
	return crud.Kind[image]{
		Name: "image", Key: "name",
		Schema: schema.Schema{
			Description: "The description of an image. Its files have a URL, or were uploaded with `holdfast image add`.",
			Attributes: map[string]schema.Attribute{
				"name":        required("Name of the image. Another name is another image."),
				"description": optional("Free text"),
				"arch":        optional("amd64 (default) or arm64"),
				"format":      optional("Of the disk: RAW (default), QCOW2 or TAR"),
				"compression": optional("Of the disk: NONE (default), GZIP or ZSTD"),
				"disk":        imageFile("The contents of the disk"),
				"kernel":      imageFile("The kernel to boot"),
				"initrd":      imageFile("The initrd to boot with it"),
				"cmdline":     optional("Of the kernel"),
			},
		},
		ID: func(i *image) string { return i.Name.ValueString() },
		Empty: func(name string) image {
			none := types.ObjectNull(fileTypes())
			return image{Name: types.StringValue(name), Disk: none, Kernel: none, Initrd: none}
		},
		Read: func(ctx context.Context, c *client.Client, i *image, _ bool) error {
			live, err := c.Images().GetImage(ctx, &holdfastv1.GetImageRequest{Name: i.Name.ValueString()})
			return filled(i.fill, live, err)
		},
		Create: func(ctx context.Context, c *client.Client, i, _ *image) error {
			return i.put(ctx, c, &holdfastv1.AddImageRequest{})
		},
		Update: func(ctx context.Context, c *client.Client, _, i, _ *image) error {
			return i.put(ctx, c, &holdfastv1.AddImageRequest{Replace: true})
		},
		Delete: func(ctx context.Context, c *client.Client, i *image) error {
			_, err := c.Images().DeleteImage(ctx, &holdfastv1.DeleteImageRequest{Name: i.Name.ValueString()})
			return err
		},
		Check: func(i *image) []crud.Violation {
			in, bad := i.proto()
			if len(bad) > 0 {
				return bad
			}
			return violations(fsm.ValidateImage(fsm.NormalImage(in)))
		},
		Preview: func(ctx context.Context, c *client.Client, was, i *image) error {
			in, _ := i.proto()
			_, err := c.Images().AddImage(ctx, &holdfastv1.AddImageRequest{Image: in, Replace: was != nil,
				ValidateOnly: true})
			return err
		},
	}
}

func imageFile(text string) schema.SingleNestedAttribute {
	return schema.SingleNestedAttribute{Optional: true, Description: text, Attributes: map[string]schema.Attribute{
		"url":        optional("http or https, without credentials; omitted: it was uploaded"),
		"sha256":     required("Of the file as it is: 64 hexadecimal digits in lower case"),
		"size_bytes": schema.Int64Attribute{Optional: true, Description: "Size; may be omitted with a URL"},
	}}
}

func fileTypes() map[string]attr.Type {
	return map[string]attr.Type{"url": types.StringType, "sha256": types.StringType, "size_bytes": types.Int64Type}
}

// proto returns the image of the API, and the violations of its enumerations.
func (i *image) proto() (*holdfastv1.Image, []crud.Violation) {
	var bad []crud.Violation
	number := func(field string, v types.String, of map[string]int32) int32 {
		n, ok := of[strings.ToUpper(v.ValueString())]
		if !ok && v.ValueString() != "" {
			bad = append(bad, crud.Violation{Field: field, Text: "is not one of " + names(of)})
		}
		return n
	}
	return &holdfastv1.Image{
		Name: i.Name.ValueString(), Description: i.Description.ValueString(), Arch: i.Arch.ValueString(),
		Format:      holdfastv1.Image_Format(number("format", i.Format, holdfastv1.Image_Format_value)),
		Compression: holdfastv1.Image_Compression(number("compression", i.Compression, holdfastv1.Image_Compression_value)),
		Disk:        file(i.Disk), Kernel: file(i.Kernel), Initrd: file(i.Initrd), Cmdline: i.Cmdline.ValueString(),
	}, bad
}

func (i *image) put(ctx context.Context, c *client.Client, r *holdfastv1.AddImageRequest) error {
	r.Image, _ = i.proto()
	live, err := c.Images().AddImage(ctx, r)
	return filled(i.fill, live, err)
}

func (i *image) fill(live *holdfastv1.Image) {
	i.Description = values.Whole(i.Description, live.GetDescription(), "")
	i.Arch = values.Whole(i.Arch, live.GetArch(), "amd64")
	i.Cmdline = values.Whole(i.Cmdline, live.GetCmdline(), "")
	i.Format = enum(i.Format, live.GetFormat(), "RAW")
	i.Compression = enum(i.Compression, live.GetCompression(), "NONE")
	i.Disk, i.Kernel, i.Initrd = fileOf(i.Disk, live.GetDisk()), fileOf(i.Kernel, live.GetKernel()),
		fileOf(i.Initrd, live.GetInitrd())
}
