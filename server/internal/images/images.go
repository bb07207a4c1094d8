package images

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/internal/imageformat"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/server/auth"
	"github.com/holdfast-metal/holdfast/server/internal/edge"
	"github.com/holdfast-metal/holdfast/server/internal/page"
	"github.com/holdfast-metal/holdfast/server/internal/request"
)

// Files stores the files of images on the peers (*images.Depot).
type Files interface {
	// Upload stores a file. It responds once a majority of voters has the file.
	Upload(stream grpc.BidiStreamingServer[holdfastv1.UploadFileRequest, holdfastv1.UploadFileResponse]) error
	// Held returns an error unless a majority of voters has a file. Only then may an image use it.
	Held(ctx context.Context, sum string) error
	// Copies returns the copy of a file on each peer, complete or not.
	Copies(ctx context.Context, sum string) []*holdfastv1.Image_Copy
	// Head returns up to n of the first bytes of a file, from a peer that has it or from its URL.
	Head(ctx context.Context, sum, url string, n int) ([]byte, error)
}

// Service implements ImageService. Uploads are served by the peer that receives the
// call.
type Service struct {
	holdfastv1.UnimplementedImageServiceServer
	*edge.Peer
	files Files
}

// New returns the service of a peer. Files may be nil: then no file can be uploaded.
func New(peer *edge.Peer, files Files) *Service { return &Service{Peer: peer, files: files} }

// AddImage adds an image.
func (s *Service) AddImage(ctx context.Context, r *holdfastv1.AddImageRequest) (*holdfastv1.Image, error) {
	in := fsm.NormalImage(r.GetImage())
	request.WithoutUnknown(in)
	if err := request.Violations(append(fsm.ValidateImage(in), s.DeniedURLs("image", in)...)); err != nil {
		return nil, err
	}
	for _, f := range fsm.ImageFiles(in) {
		if f.GetUrl() != "" || s.files == nil {
			continue
		}
		if err := s.files.Held(ctx, f.GetSha256()); err != nil {
			return nil, err
		}
	}
	if err := s.checkFormat(ctx, in); err != nil {
		return nil, err
	}
	if r.GetValidateOnly() {
		v, err := s.Cluster.View(ctx)
		if err != nil {
			return nil, err
		}
		if old, ok := v.Image(in.GetName()); ok && !fsm.SameImage(old, in) {
			if err := fsm.CheckReplaceImage(old, r.GetReplace()); err != nil {
				return nil, err
			}
		}
		return in, nil
	}
	c := auth.Command(ctx)
	c.Op = &internalv1.Command_PutImage{PutImage: &internalv1.PutImage{Image: in, Replace: r.GetReplace()}}
	return edge.Apply[*holdfastv1.Image](ctx, s.Cluster, c)
}

// checkFormat returns an error if the first bytes of the disk are not those of its declared format:
// no installer could write it. Bytes that cannot be read prove nothing. The installer checks again.
func (s *Service) checkFormat(ctx context.Context, in *holdfastv1.Image) error {
	disk := in.GetDisk()
	if disk == nil || s.files == nil || fsm.IsMedium(in.GetName()) {
		return nil
	}
	head, err := s.files.Head(ctx, disk.GetSha256(), disk.GetUrl(), imageformat.HeadSize)
	if err != nil {
		s.Log.Info("cannot read the start of an image, its format is not checked", "image", in.GetName(), "error", err)
		return nil
	}
	if err := imageformat.Check(in.GetFormat().String(), in.GetCompression().String(), head); err != nil {
		return request.Invalid("image.format", "cannot be installed: "+err.Error())
	}
	return nil
}

// GetImage returns an image with the state of its files on each peer.
func (s *Service) GetImage(ctx context.Context, r *holdfastv1.GetImageRequest) (*holdfastv1.Image, error) {
	v, err := request.View(ctx, s.Cluster.View, "name", r.GetName())
	if err != nil {
		return nil, err
	}
	image, ok := v.Image(r.GetName())
	if !ok {
		return nil, request.NotFound("IMAGE_NOT_FOUND", "image", r.GetName())
	}
	if s.files != nil {
		image = proto.CloneOf(image)
		for _, f := range fsm.ImageFiles(image) {
			f.Copies = s.files.Copies(ctx, f.GetSha256())
		}
	}
	return image, nil
}

// ListImages lists images by name.
func (s *Service) ListImages(
	ctx context.Context, r *holdfastv1.ListImagesRequest,
) (*holdfastv1.ListImagesResponse, error) {
	p, v, err := page.Open(ctx, s.Cluster.View, r, "images")
	if err != nil {
		return nil, err
	}
	rows := page.Keyed(v.Images(p.After), (*holdfastv1.Image).GetName)
	resp := &holdfastv1.ListImagesResponse{}
	resp.Images, resp.NextPageToken, err = page.Collect(ctx, p, rows, nil)
	return resp, err
}

// DeleteImage deletes an image that no active run installs.
func (s *Service) DeleteImage(
	ctx context.Context, r *holdfastv1.DeleteImageRequest,
) (*holdfastv1.DeleteImageResponse, error) {
	if err := request.Required("name", r.GetName()); err != nil {
		return nil, err
	}
	c := auth.Command(ctx)
	c.Op = &internalv1.Command_DeleteImage{DeleteImage: &internalv1.DeleteImage{Name: r.GetName()}}
	return edge.ApplyEmpty[holdfastv1.DeleteImageResponse](ctx, s.Cluster, c)
}

// UploadFile stores a file of an image.
func (s *Service) UploadFile(
	stream grpc.BidiStreamingServer[holdfastv1.UploadFileRequest, holdfastv1.UploadFileResponse],
) error {
	if s.files == nil {
		return status.Error(codes.Unimplemented, "this peer stores no image files")
	}
	return s.files.Upload(stream)
}
