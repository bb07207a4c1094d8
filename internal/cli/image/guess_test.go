package image

import (
	"strings"
	"testing"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

func TestGuessImage(t *testing.T) {
	tar := strings.Repeat("\x00", 257) + "ustar"
	for _, tt := range []struct {
		name, head string
		want       holdfastv1.Image_Format
		compressed holdfastv1.Image_Compression
	}{
		{"d.raw", "", holdfastv1.Image_RAW, holdfastv1.Image_NONE},
		{"https://e.example/D.QCOW2", "", holdfastv1.Image_QCOW2, holdfastv1.Image_NONE},
		{"d.raw.zst", "", holdfastv1.Image_RAW, holdfastv1.Image_ZSTD},
		{"d.img.gz", "", holdfastv1.Image_RAW, holdfastv1.Image_GZIP},
		{"root.tgz", "", holdfastv1.Image_TAR, holdfastv1.Image_GZIP},
		{"root.tar.zst", "\x28\xb5\x2f\xfdxxxx", holdfastv1.Image_TAR, holdfastv1.Image_ZSTD},
		{"d.raw", "\x1f\x8bxxx", holdfastv1.Image_RAW, holdfastv1.Image_GZIP},
		{"d.raw.gz", "not compressed", holdfastv1.Image_RAW, holdfastv1.Image_NONE},
		{"d.img", "QFI\xfbxxx", holdfastv1.Image_QCOW2, holdfastv1.Image_NONE},
		{"d.qcow2", "only its name", holdfastv1.Image_RAW, holdfastv1.Image_NONE},
		{"root", tar, holdfastv1.Image_TAR, holdfastv1.Image_NONE},
	} {
		format, compression := guessImage(tt.name, []byte(tt.head))
		if format != tt.want || compression != tt.compressed {
			t.Errorf("%q, %.8q: got %v %v, want %v %v", tt.name, tt.head, format, compression, tt.want, tt.compressed)
		}
	}
}
