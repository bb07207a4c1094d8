package diagnose

import (
	"bytes"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"time"

	"github.com/prometheus/common/expfmt"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/internal/edge"
	"github.com/holdfast-metal/holdfast/server/internal/request"
)

const (
	debugChunk     = 256 << 10 // maximum bytes of a file in one message
	maxCPUSeconds  = 60
	fullGoroutines = 2 // every goroutine with its stack, in the format of a panic
)

// CollectDebug streams files that help to debug this peer. They contain no secret: the
// configuration contains the names of key files, not their contents.
func (s *Cluster) CollectDebug(
	r *holdfastv1.CollectDebugRequest, stream grpc.ServerStreamingServer[holdfastv1.DebugFile],
) error {
	ctx := stream.Context()
	if n := r.GetCpuSeconds(); n < 0 || n > maxCPUSeconds {
		return request.Invalid("cpu_seconds", fmt.Sprintf("is %d: want 0 to %d", n, maxCPUSeconds))
	}
	files := []struct {
		name  string
		write func(io.Writer) error
	}{
		{"about.txt", s.about},
		{"settings.txt", func(w io.Writer) error { _, err := io.WriteString(w, s.cfg.Settings); return err }},
		{"status.json", func(w io.Writer) error {
			raw, err := protojson.MarshalOptions{Multiline: true}.Marshal(s.members.Status(ctx))
			if err == nil {
				_, err = w.Write(raw)
			}
			return err
		}},
		{"metrics.txt", s.writeMetrics},
		{"goroutines.txt", func(w io.Writer) error { return pprof.Lookup("goroutine").WriteTo(w, fullGoroutines) }},
		{"heap.pprof", func(w io.Writer) error { return pprof.Lookup("heap").WriteTo(w, 0) }},
		{"cpu.pprof", func(w io.Writer) error {
			if r.GetCpuSeconds() == 0 {
				return nil
			}
			if err := pprof.StartCPUProfile(w); err != nil {
				return status.Error(codes.FailedPrecondition, "profile the CPU: "+err.Error())
			}
			defer pprof.StopCPUProfile()
			t := time.NewTimer(time.Duration(r.GetCpuSeconds()) * time.Second)
			defer t.Stop()
			select {
			case <-t.C:
				return nil
			case <-s.Draining:
				return edge.ErrDraining
			case <-ctx.Done():
				return ctx.Err()
			}
		}},
	}
	for _, f := range files {
		var b bytes.Buffer
		if err := f.write(&b); err != nil {
			return err
		}
		for b.Len() > 0 {
			if err := stream.Send(&holdfastv1.DebugFile{Name: f.name, Data: b.Next(debugChunk)}); err != nil {
				return err
			}
		}
	}
	return nil
}

// about writes the version and the state of this peer.
func (s *Cluster) about(w io.Writer) error {
	leader, _, _ := s.members.Leader()
	ready := "yes"
	if err := s.cfg.Ready(); err != nil {
		ready = err.Error()
	}
	_, err := fmt.Fprintf(w, "peer %s\nversion %s\nrole %s\nleader %s\nready %s\nnote %s\nindex %d\n",
		s.cfg.PeerID, s.cfg.Version, s.members.Role(), leader, ready, s.cfg.Note(), s.State.View().Index())
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "go %s, %d CPUs, %d goroutines\ntime %s\n\n",
		runtime.Version(), runtime.GOMAXPROCS(0), runtime.NumGoroutine(), time.Now().UTC().Format(time.RFC3339))
	if info, ok := debug.ReadBuildInfo(); ok && err == nil {
		_, err = io.WriteString(w, info.String())
	}
	return err
}

// writeMetrics writes all metrics in the text format of Prometheus.
func (s *Cluster) writeMetrics(w io.Writer) error {
	families, err := s.cfg.Gatherer.Gather()
	if err != nil && len(families) == 0 {
		return fmt.Errorf("gather metrics: %w", err)
	}
	enc := expfmt.NewEncoder(w, expfmt.NewFormat(expfmt.TypeTextPlain))
	for _, f := range families {
		if err := enc.Encode(f); err != nil {
			return fmt.Errorf("write metrics: %w", err)
		}
	}
	return nil
}
