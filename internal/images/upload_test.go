package images_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// upload sends a file or the first part of it to a peer, and returns the answers.
func upload(
	t *testing.T, p *peer, sum string, size int64, all []byte, until int,
) (answers []*holdfastv1.UploadFileResponse, err error) {
	t.Helper()
	s, err := holdfastv1.NewImageServiceClient(p.conn.Load()).UploadFile(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_ = s.Send(&holdfastv1.UploadFileRequest{Part: &holdfastv1.UploadFileRequest_Header_{
		Header: &holdfastv1.UploadFileRequest_Header{Sha256: sum, SizeBytes: size}}})
	first, err := s.Recv()
	if err != nil {
		return nil, err
	}
	answers = append(answers, first)
	for at := int(first.GetReceivedBytes()); at < until; at += 64 << 10 {
		if err := s.Send(&holdfastv1.UploadFileRequest{Part: &holdfastv1.UploadFileRequest_Data{Data: all[at:min(at+64<<10,
			until)]}}); err != nil {
			break // Recv returns the reason
		}
	}
	_ = s.CloseSend()
	for {
		r, err := s.Recv()
		if errors.Is(err, io.EOF) {
			return answers, nil
		}
		if err != nil {
			return answers, err
		}
		answers = append(answers, r)
	}
}

func reason(err error) string {
	for _, d := range status.Convert(err).Details() {
		if i, ok := d.(*errdetails.ErrorInfo); ok {
			return i.GetReason()
		}
	}
	return ""
}

func TestUpload(t *testing.T) {
	all := someBytes(5<<20, 5)
	sum, size := sumOf(all), int64(len(all))
	l := newLab(t, 3).start()
	l.peers[2].stop()
	taker := l.peers[1]
	if err := taker.depot.Held(t.Context(), sum); reason(err) != "BYTES_MISSING" {
		t.Errorf("before the upload: got %v, want BYTES_MISSING", err)
	}

	_, err := upload(t, taker, sum, size, all, 3<<20)
	if status.Code(err) != codes.InvalidArgument || reason(err) != "WRONG_SIZE" {
		t.Errorf("short upload: got %v, want INVALID_ARGUMENT (WRONG_SIZE)", err)
	}
	answers, err := upload(t, taker, sum, size, all, len(all))
	if err != nil {
		t.Fatal(err)
	}
	if got := answers[0].GetReceivedBytes(); got != 3<<20 {
		t.Errorf("got a continuation at %d, want %d", got, 3<<20)
	}
	last := answers[len(answers)-1]
	if !last.GetDone() || len(last.GetPeers()) != 2 {
		t.Errorf("last answer: got %v, want done, at two peers", last)
	}
	for _, p := range l.peers[:2] {
		if _, ok, err := p.store.Has(t.Context(), sum); !ok {
			t.Errorf("file at peer %s: %v", p.id, err)
		}
	}
	if err := l.peers[0].depot.Held(t.Context(), sum); err != nil {
		t.Errorf("afterwards: %v", err)
	}
	if answers, err = upload(t, taker, sum, size, nil, 0); err != nil || answers[0].GetReceivedBytes() != size {
		t.Errorf("repeated upload: got %v, %v, want all of it known", answers, err)
	}

	// A peer that was down, and one with a damaged file, get the file once an image uses it.
	l.add("debian", &holdfastv1.Image_File{Sha256: sum, SizeBytes: size})
	l.start(l.peers[2])
	l.peers[2].has(sum)
	l.peers[0].stop()
	if err := os.Truncate(filepath.Join(l.peers[0].dir, sum), size/2); err != nil {
		t.Fatal(err)
	}
	l.start(l.peers[0])
	l.peers[0].has(sum)
	resp, err := http.Get(l.peers[0].web.URL + "/images/debian/disk")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if got, _ := io.ReadAll(resp.Body); !bytes.Equal(got, all) {
		t.Errorf("download: got %d other bytes: %s", len(got), resp.Status)
	}
}

func TestRefusedUploads(t *testing.T) {
	all := someBytes(1<<20, 6)
	sum, size := sumOf(all), int64(len(all))
	for _, tt := range []struct {
		name   string
		before func(l *lab)
		sum    string
		size   int64
		code   codes.Code
		reason string
	}{
		{"no sum", nil, "abc", size, codes.InvalidArgument, "INVALID_FIELD"},
		{"no size", nil, sum, 0, codes.InvalidArgument, "INVALID_FIELD"},
		{"another sum", nil, sumOf([]byte("other")), size, codes.InvalidArgument, "WRONG_SUM"},
		{"more than announced", nil, sum, size - 1, codes.InvalidArgument, "WRONG_SIZE"},
		{"no room here", func(l *lab) { l.peers[0].free.Store(1000) }, sum, size, codes.ResourceExhausted, "DISK_FULL"},
		{"no room elsewhere", func(l *lab) { l.peers[1].free.Store(1000); l.peers[2].free.Store(1000) }, sum, size,
			codes.FailedPrecondition, "NO_MAJORITY"},
		{"no majority", func(l *lab) { l.peers[1].stop(); l.peers[2].stop() }, sum, size, codes.FailedPrecondition,
			"NO_MAJORITY"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := newLab(t, 3).start()
			if tt.before != nil {
				tt.before(l)
			}
			_, err := upload(t, l.peers[0], tt.sum, tt.size, all, len(all))
			if status.Code(err) != tt.code || reason(err) != tt.reason {
				t.Errorf("got %v (%s), want %s (%s)", err, reason(err), tt.code, tt.reason)
			}
		})
	}
}

// TestSilentUploads checks that uploads that send nothing do not block others, and that a stalled
// upload loses its slot. Its received bytes are kept.
func TestSilentUploads(t *testing.T) {
	all := someBytes(1<<20, 8)
	sum, size := sumOf(all), int64(len(all))
	l := newLab(t, 1).start()
	p := l.peers[0]
	api := holdfastv1.NewImageServiceClient(p.conn.Load())
	for range 20 { // more than the limit
		if _, err := api.UploadFile(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	s, err := api.UploadFile(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range []*holdfastv1.UploadFileRequest{
		{Part: &holdfastv1.UploadFileRequest_Header_{Header: &holdfastv1.UploadFileRequest_Header{Sha256: sum,
			SizeBytes: size}}},
		{Part: &holdfastv1.UploadFileRequest_Data{Data: all[:1000]}},
	} {
		if err := s.Send(r); err != nil {
			t.Fatal(err)
		}
	}
	if first, err := s.Recv(); err != nil || first.GetReceivedBytes() != 0 {
		t.Fatalf("upload beside silent ones: got %v, %v, want a slot", first, err)
	}
	if _, err := s.Recv(); status.Code(err) != codes.Unavailable || reason(err) != "STALLED" {
		t.Errorf("stalled upload: got %v, want UNAVAILABLE (STALLED)", err)
	}
	answers, err := upload(t, p, sum, size, all, len(all))
	if err != nil || answers[0].GetReceivedBytes() != 1000 || !answers[len(answers)-1].GetDone() {
		t.Errorf("repeated upload: got %v, %v, want a continuation at 1000 and success", answers, err)
	}
}
