package jsonapi_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/auth"
	"github.com/holdfast-metal/holdfast/server/inproc"
	"github.com/holdfast-metal/holdfast/server/jsonapi"
)

// fake implements methods that stream.
type fake struct {
	holdfastv1.UnimplementedRunServiceServer
	holdfastv1.UnimplementedOperatorServiceServer
	holdfastv1.UnimplementedImageServiceServer
	holdfastv1.UnimplementedAuditServiceServer
	md metadata.MD
}

func (f *fake) WatchRuns(r *holdfastv1.WatchRunsRequest, s grpc.ServerStreamingServer[holdfastv1.RunEvent]) error {
	f.md, _ = metadata.FromIncomingContext(s.Context())
	if r.GetCursor() == 9 {
		return status.Error(codes.OutOfRange, "the cursor is gone")
	}
	_ = s.SetHeader(metadata.Pairs("holdfast-index", "7"))
	for i := r.GetCursor() + 1; i < 4; i++ {
		e := &holdfastv1.RunEvent{Cursor: i, Snapshot: &holdfastv1.Run{RunId: "r"}}
		if i == 2 {
			e.Snapshot = nil
		}
		if err := s.Send(e); err != nil {
			return err
		}
		time.Sleep(10 * time.Second) // sleep: fake clock
	}
	return status.Error(codes.Unavailable, "draining")
}

func (*fake) StreamRunLogs(
	r *holdfastv1.StreamRunLogsRequest, s grpc.ServerStreamingServer[holdfastv1.LogChunk],
) error {
	const text = "hello\nworld\n"
	for at := int(r.GetOffset()); at < len(text); at += 6 {
		if err := s.Send(&holdfastv1.LogChunk{Offset: int64(at), Data: []byte(text[at:][:6])}); err != nil {
			return err
		}
	}
	return nil
}

func (*fake) ExportAuditEvents(
	r *holdfastv1.ExportAuditEventsRequest, s grpc.ServerStreamingServer[holdfastv1.AuditEvent],
) error {
	return s.Send(&holdfastv1.AuditEvent{Sequence: max(1, r.GetFromSequence())})
}

func (*fake) SaveSnapshot(
	_ *holdfastv1.SaveSnapshotRequest, s grpc.ServerStreamingServer[holdfastv1.SnapshotData],
) error {
	if err := s.Send(&holdfastv1.SnapshotData{Data: []byte{1, 2, 3}}); err != nil {
		return err
	}
	if md, _ := metadata.FromIncomingContext(s.Context()); len(md.Get("holdfast-min-index")) > 0 {
		return status.Error(codes.Internal, "disk error")
	}
	return nil
}

// UploadFile has the first two bytes of the file already.
func (*fake) UploadFile(
	s grpc.BidiStreamingServer[holdfastv1.UploadFileRequest, holdfastv1.UploadFileResponse],
) error {
	first, err := s.Recv()
	if err != nil {
		return err
	}
	if first.GetHeader().GetSizeBytes() != 6 {
		return status.Errorf(codes.InvalidArgument, "size %d", first.GetHeader().GetSizeBytes())
	}
	if err := s.Send(&holdfastv1.UploadFileResponse{ReceivedBytes: 2}); err != nil {
		return err
	}
	text := ""
	for {
		r, err := s.Recv()
		if errors.Is(err, io.EOF) {
			return s.Send(&holdfastv1.UploadFileResponse{Done: true, Peers: []string{first.GetHeader().GetSha256(), text}})
		}
		if err != nil {
			return err
		}
		text += string(r.GetData())
	}
}

func site() (http.Handler, *fake) {
	rpc, f := inproc.New(nil, nil), &fake{}
	holdfastv1.RegisterRunServiceServer(rpc, f)
	holdfastv1.RegisterOperatorServiceServer(rpc, f)
	holdfastv1.RegisterImageServiceServer(rpc, f)
	holdfastv1.RegisterAuditServiceServer(rpc, f)
	m := auth.Open().NewMux()
	jsonapi.Register(m, rpc)
	return m, f
}

const (
	end     = "event: end\ndata: {}\n\n"
	problem = `event: problem` + "\n" + `data: {"type":"about:blank","title":"Service Unavailable","status":503,` +
		`"detail":"draining","code":"UNAVAILABLE"}` + "\n\n"
	eventOne   = "id: 1\ndata: {\"snapshot\":{\"run_id\":\"r\"}, \"cursor\":\"1\"}\n\n"
	eventThree = "id: 3\ndata: {\"snapshot\":{\"run_id\":\"r\"}, \"cursor\":\"3\"}\n\n"
	alive      = ": alive\n\n"
)

// TestStreams checks events, their ids, bookmarks, keep-alives, the end, and resuming.
func TestStreams(t *testing.T) {
	for _, tt := range []struct {
		name, path, accept, last string
		status                   int
		kind, want               string
	}{
		{"from the start", "/v1/runs:watch", "", "", 200, "text/event-stream",
			eventOne + alive + "id: 2\n\n" + alive + eventThree + problem},
		{"resumed", "/v1/runs:watch?cursor=1", "", "2", 200, "text/event-stream", eventThree + alive + problem},
		{"refused", "/v1/runs:watch", "", "9", 410, "application/problem+json",
			`{"type":"about:blank","title":"Gone","status":410,"detail":"the cursor is gone","code":"OUT_OF_RANGE"}`},
		{"bad id", "/v1/runs:watch", "", "x", 400, "application/problem+json", "*"},
		{"logs", "/v1/runs/r/logs", "", "6", 200, "text/event-stream",
			"id: 12\ndata: {\"data\":\"d29ybGQK\", \"offset\":\"6\"}\n\n" + end},
		{"logs as text", "/v1/runs/r/logs?offset=6", "text/plain", "", 200, "text/plain; charset=utf-8", "world\n"},
		{"audit", "/v1/audit/events:export", "", "4", 200, "text/event-stream",
			"id: 5\ndata: {\"sequence\":\"5\"}\n\n" + end},
		{"snapshot", "/v1/cluster/snapshot", "", "", 200, "application/octet-stream", "\x01\x02\x03"},
		{"no id", "/v1/cluster/snapshot", "", "3", 400, "application/problem+json", "*"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h, _ := site()
				r := httptest.NewRequestWithContext(t.Context(), "GET", "http://localhost"+tt.path, nil)
				r.Header.Set("Accept", tt.accept)
				r.Header.Set("Last-Event-ID", tt.last)
				w := httptest.NewRecorder()
				h.ServeHTTP(w, r)
				// protojson adds blanks at random
				got := strings.NewReplacer(`,"cursor"`, `, "cursor"`, `,"offset"`, `, "offset"`).Replace(w.Body.String())
				if w.Code != tt.status || w.Header().Get("Content-Type") != tt.kind {
					t.Errorf("got %d %s, want %d %s", w.Code, w.Header().Get("Content-Type"), tt.status, tt.kind)
				}
				if diff := cmp.Diff(tt.want, got); diff != "" && tt.want != "*" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			})
		})
	}
}

// TestConsistencyOfStreams checks that a stream asks for the consistency of the request, and
// returns its position.
func TestConsistencyOfStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, f := site()
		r := httptest.NewRequestWithContext(t.Context(), "GET", "http://localhost/v1/runs:watch?consistency=stale", nil)
		r.Header.Set("Holdfast-Min-Index", "5")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		want := metadata.Pairs("holdfast-consistency", "stale", "holdfast-min-index", "5")
		if diff := cmp.Diff(want, f.md); diff != "" || w.Header().Get("holdfast-index") != "7" {
			t.Errorf("got header %v, metadata (-want +got):\n%s", w.Header(), diff)
		}
	})
}

// TestBrokenDownload checks that a download that breaks off does not look complete.
func TestBrokenDownload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, _ := site()
		r := httptest.NewRequestWithContext(t.Context(), "GET", "http://localhost/v1/cluster/snapshot", nil)
		r.Header.Set("Holdfast-Min-Index", "5")
		defer func() {
			if got := recover(); got != http.ErrAbortHandler { //nolint:errorlint // the value that net/http compares
				t.Errorf("got %v, want the connection to be aborted", got)
			}
		}()
		h.ServeHTTP(httptest.NewRecorder(), r)
	})
}

// TestUpload checks that a body becomes the messages of a call, without the part that the peer has.
func TestUpload(t *testing.T) {
	for _, tt := range []struct {
		body   string
		status int
		want   string
	}{
		{"abcdef", 200, `data: {"done":true,"peers":["f00","cdef"]}`},
		{"a", 400, `size 1`},
	} {
		synctest.Test(t, func(t *testing.T) {
			h, _ := site()
			r := httptest.NewRequestWithContext(t.Context(), "PUT", "http://localhost/v1/files/f00", strings.NewReader(tt.body))
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			got := strings.ReplaceAll(strings.ReplaceAll(w.Body.String(), ", ", ","), `"peers":["f00","cdef"],"done":true`,
				`"done":true,"peers":["f00","cdef"]`)
			if w.Code != tt.status || !strings.Contains(got, tt.want) {
				t.Errorf("got %d %s, want %d with %s", w.Code, w.Body, tt.status, tt.want)
			}
		})
	}
}
