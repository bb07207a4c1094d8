package server

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/internal/nodetest"
)

// heldFiles are the files that a majority of voters has. Copies on the peers are tested
// in internal/images.
type heldFiles map[string]bool

func (f heldFiles) Upload(grpc.BidiStreamingServer[holdfastv1.UploadFileRequest, holdfastv1.UploadFileResponse]) error {
	return status.Error(codes.DataLoss, "taken")
}

func (f heldFiles) Held(_ context.Context, sum string) error {
	if !f[sum] {
		return &fsm.Error{Code: fsm.FailedPrecondition, Reason: "BYTES_MISSING", Message: "upload it first"}
	}
	return nil
}

// Head returns the start of an xz file for the sum of digits c, and of a disk for others.
func (f heldFiles) Head(_ context.Context, sum, url string, _ int) ([]byte, error) {
	switch {
	case sum[0] == 'c':
		return []byte("\xfd7zXZ\x00 and more"), nil
	case url != "":
		return nil, errors.New("no route to host")
	}
	head := make([]byte, 512)
	head[0x1be+4], head[0x1be+12], head[0x1fe], head[0x1ff] = 0x83, 1, 0x55, 0xaa
	return head, nil
}

func (f heldFiles) Copies(_ context.Context, sum string) []*holdfastv1.Image_Copy {
	return []*holdfastv1.Image_Copy{{PeerId: "p1", Present: f[sum]}}
}

func TestImageService(t *testing.T) {
	sum := func(digit string) string { return strings.Repeat(digit, 64) }
	_, conn := serve(t, nodetest.New(), Config{Files: heldFiles{sum("a"): true, sum("c"): true}})
	c := holdfastv1.NewImageServiceClient(conn.conn)
	ctx := testCtx(t)
	uploaded := &holdfastv1.Image{Name: "debian", Disk: &holdfastv1.Image_File{Sha256: sum("a"), SizeBytes: 10}}
	missing := &holdfastv1.Image{Name: "other", Disk: &holdfastv1.Image_File{Sha256: sum("b"), SizeBytes: 10}}
	remote := &holdfastv1.Image{Name: "remote", Disk: &holdfastv1.Image_File{Sha256: sum("b"), Url: "https://e.example/d"}}
	packed := &holdfastv1.Image{Name: "packed", Disk: &holdfastv1.Image_File{Sha256: sum("c"), SizeBytes: 10}}
	medium := proto.CloneOf(packed)
	medium.Name = fsm.MediumImage
	changed := proto.CloneOf(uploaded)
	changed.Description = "another one"

	for _, tt := range []struct {
		name   string
		req    *holdfastv1.AddImageRequest
		code   codes.Code
		reason string
	}{
		{"nothing", &holdfastv1.AddImageRequest{}, codes.InvalidArgument, "INVALID_FIELD"},
		{"only a check", &holdfastv1.AddImageRequest{Image: uploaded, ValidateOnly: true}, codes.OK, ""},
		{"uploaded before", &holdfastv1.AddImageRequest{Image: uploaded}, codes.OK, ""},
		{"the same again", &holdfastv1.AddImageRequest{Image: uploaded}, codes.OK, ""},
		{"not uploaded", &holdfastv1.AddImageRequest{Image: missing}, codes.FailedPrecondition, "BYTES_MISSING"},
		{"from a URL", &holdfastv1.AddImageRequest{Image: remote}, codes.OK, ""},
		{"in a foreign format", &holdfastv1.AddImageRequest{Image: packed}, codes.InvalidArgument, "INVALID_FIELD"},
		{"in a foreign format, only a check", &holdfastv1.AddImageRequest{Image: packed, ValidateOnly: true},
			codes.InvalidArgument, "INVALID_FIELD"},
		{"the boot medium", &holdfastv1.AddImageRequest{Image: medium, ValidateOnly: true}, codes.OK, ""},
		{"another one", &holdfastv1.AddImageRequest{Image: changed}, codes.AlreadyExists, "IMAGE_EXISTS"},
		{"another one, only a check", &holdfastv1.AddImageRequest{Image: changed, ValidateOnly: true}, codes.AlreadyExists,
			"IMAGE_EXISTS"},
		{"another one in its place", &holdfastv1.AddImageRequest{Image: changed, Replace: true}, codes.OK, ""},
	} {
		_, err := c.AddImage(ctx, tt.req)
		if tt.code == codes.OK {
			if err != nil {
				t.Errorf("%s: %v", tt.name, err)
			}
			continue
		}
		wantError(t, err, tt.code, tt.reason)
	}

	got, err := c.GetImage(ctx, &holdfastv1.GetImageRequest{Name: "debian"})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]*holdfastv1.Image_Copy{{PeerId: "p1", Present: true}}, got.GetDisk().GetCopies(),
		protocmp.Transform()); diff != "" || got.GetDescription() != "another one" {
		t.Errorf("got %v, copies (-want +got):\n%s", got, diff)
	}
	_, err = c.GetImage(ctx, &holdfastv1.GetImageRequest{Name: "none"})
	wantError(t, err, codes.NotFound, "IMAGE_NOT_FOUND")

	var names []string
	for token := ""; ; {
		r, err := c.ListImages(ctx, &holdfastv1.ListImagesRequest{PageSize: 1, PageToken: token})
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range r.GetImages() {
			names = append(names, i.GetName())
		}
		if token = r.GetNextPageToken(); token == "" {
			break
		}
	}
	if diff := cmp.Diff([]string{"debian", "remote"}, names); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
	if _, err := c.DeleteImage(ctx, &holdfastv1.DeleteImageRequest{Name: "remote"}); err != nil {
		t.Error(err)
	}
	_, err = c.DeleteImage(ctx, &holdfastv1.DeleteImageRequest{Name: "remote"})
	wantError(t, err, codes.NotFound, "IMAGE_NOT_FOUND")
}
