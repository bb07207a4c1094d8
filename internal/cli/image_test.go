package cli

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"

	"github.com/holdfast-metal/holdfast/internal/cli/app"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

func (f *fakeCluster) AddImage(_ context.Context, r *holdfastv1.AddImageRequest) (*holdfastv1.Image, error) {
	return r.GetImage(), nil
}

func (f *fakeCluster) GetImage(_ context.Context, r *holdfastv1.GetImageRequest) (*holdfastv1.Image, error) {
	return &holdfastv1.Image{Name: r.GetName(), Arch: "amd64", Format: holdfastv1.Image_QCOW2,
		Compression: holdfastv1.Image_NONE, Disk: &holdfastv1.Image_File{
			Sha256: strings.Repeat("a", 64), SizeBytes: 3 << 20, Copies: []*holdfastv1.Image_Copy{
				{PeerId: "n1", Present: true}, {PeerId: "n2", ReceivedBytes: 1 << 20}, {PeerId: "n3", Error: "it is down"},
			}}}, nil
}

// UploadFile accepts a file, and reports copies at some peers if its checksum is correct.
func (f *fakeCluster) UploadFile(
	s grpc.BidiStreamingServer[holdfastv1.UploadFileRequest, holdfastv1.UploadFileResponse],
) error {
	first, err := s.Recv()
	if err != nil {
		return err
	}
	if err := s.Send(&holdfastv1.UploadFileResponse{}); err != nil {
		return err
	}
	h := sha256.New()
	for {
		r, err := s.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		h.Write(r.GetData())
	}
	if hex.EncodeToString(h.Sum(nil)) != first.GetHeader().GetSha256() {
		return errors.New("checksum differs from the announced one")
	}
	return s.Send(&holdfastv1.UploadFileResponse{Done: true, Peers: []string{"n1", "n2"}})
}

func TestImageAdd(t *testing.T) {
	f := startCluster(t, fixture())
	disk := filepath.Join(t.TempDir(), "debian.raw")
	if err := os.WriteFile(disk, []byte("QFI\xfb\x00\x00\x00\x02"+strings.Repeat("\x00", 64)), 0o600); err != nil {
		t.Fatal(err)
	}
	packed := filepath.Join(t.TempDir(), "debian.raw.xz")
	if err := os.WriteFile(packed, []byte("\xfd7zXZ\x00"+strings.Repeat("x", 600)), 0o600); err != nil {
		t.Fatal(err)
	}
	var c command
	c.wantCode(t, c.run(t, f, "image", "add", "debian", "--disk", disk), app.ExitOK)
	wantIn(t, "stdout", c.out.String(), "debian", "qcow2", "disk")
	wantIn(t, "stderr", c.err.String(), "n1, n2 have it")
	c = command{}
	c.wantCode(t, c.run(t, f, "image", "add", "live", "--kernel", "https://e.example/k", "--initrd",
		"https://e.example/i", "--sha256", "kernel="+strings.Repeat("B", 64),
		"--sha256", "initrd="+strings.Repeat("c", 64), "--cmdline", "quiet"), app.ExitOK)
	got := asked[*holdfastv1.AddImageRequest](f)
	if len(got) != 2 || got[1].GetImage().GetKernel().GetSha256() != strings.Repeat("b", 64) ||
		got[1].GetImage().GetCmdline() != "quiet" || got[0].GetImage().GetDisk().GetUrl() != "" {
		t.Errorf("asked %v", got)
	}
	c = command{}
	c.wantCode(t, c.run(t, f, "image", "get", "debian"), app.ExitOK)
	wantIn(t, "stdout", c.out.String(), "n1", "all", "1.0 MiB of 3.0 MiB", "nothing: it is down")
	for _, args := range [][]string{
		{"--disk", "https://e.example/d"},
		{"--disk", disk, "--sha256", strings.Repeat("0", 64)},
		{"--disk", disk, "--kernel", disk, "--initrd", disk, "--sha256", strings.Repeat("0", 64)},
		{"--disk", disk, "--format", "iso"},
		{"--disk", disk, "--format", "raw"}, // it is qcow2
		{"--disk", packed},
		{"--kernel", disk, "--initrd", disk, "--format", "raw"},
	} {
		c = command{}
		c.wantCode(t, c.run(t, f, append([]string{"image", "add", "x"}, args...)...), app.ExitUsage)
		if strings.Contains(c.err.String(), "uploaded") {
			t.Errorf("%v: got an upload before the error: %s", args, c.err.String())
		}
	}
}

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
