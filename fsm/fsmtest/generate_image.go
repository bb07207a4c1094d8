package fsmtest

import (
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

const imageIDs = 3

// imageGenerator makes the commands about images.
type imageGenerator struct{ draw }

func (g imageGenerator) choices() []choice {
	return []choice{
		{2, "put image", g.putImage},
		{1, "delete image", g.deleteImage},
	}
}

// imageName returns a name that plans install too. "default" is the image of a step without
// one.
func (g imageGenerator) imageName() string {
	return oneOf(g.draw, "image", []string{"default", g.id("image", imageIDs)})
}

func (g imageGenerator) putImage(*fsm.View) proto.Message {
	file := func() *holdfastv1.Image_File {
		sum := strings.Repeat(string("0123"[g.Choose("sum", 4)]), 64)
		if g.rarely("bad sum") {
			sum = sum[1:]
		}
		f := &holdfastv1.Image_File{Sha256: sum, SizeBytes: 100}
		if g.Choose("from a URL", 2) == 0 {
			f.Url, f.SizeBytes = "http://files.example/f", 0
		}
		return f
	}
	i := &holdfastv1.Image{Name: g.imageName()}
	kind := g.Choose("kind of image", 3)
	if kind != 0 {
		i.Disk, i.Format, i.Compression = file(), holdfastv1.Image_QCOW2, holdfastv1.Image_ZSTD
	}
	if kind != 1 {
		i.Kernel, i.Initrd, i.Cmdline = file(), file(), "console=ttyS0"
	}
	return &internalv1.PutImage{Image: i, Replace: g.Choose("replace", 2) == 0}
}

func (g imageGenerator) deleteImage(*fsm.View) proto.Message {
	return &internalv1.DeleteImage{Name: g.imageName()}
}
