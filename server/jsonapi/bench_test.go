package jsonapi_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/server/httpjson/apitest"
)

// processorTime returns the processor time of this process.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkCalls compares calls over HTTP with the same calls over gRPC, both over TCP. cpu-ns/op
// is the processor time of the client and the server together.
func BenchmarkCalls(b *testing.B) {
	l := lab(b)
	for i := range 100 {
		l.Do(&internalv1.RegisterMachine{Machine: &holdfastv1.Machine{MachineId: fmt.Sprintf("m-%03d", i),
			Labels: map[string]string{"env": "prod", "rack": "r7"},
			Spec:   &holdfastv1.MachineSpec{Rack: "r7", Serial: fmt.Sprintf("S%08d", i), Provider: "fake"}}})
	}
	machines := overGRPC(b, l)
	site := httptest.NewServer(l.Handler)
	b.Cleanup(site.Close)
	ctx := metadata.AppendToOutgoingContext(b.Context(), "authorization", "Bearer "+l.Secret("admin"))
	get := func(path string) error {
		r, err := http.NewRequestWithContext(b.Context(), http.MethodGet, site.URL+path, nil)
		if err != nil {
			return err
		}
		r.Header.Set("Authorization", "Bearer "+l.Secret("admin"))
		resp, err := site.Client().Do(r)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("got %d", resp.StatusCode)
		}
		_, err = io.Copy(io.Discard, resp.Body)
		return err
	}
	for _, c := range []struct {
		name string
		call func(context.Context) error
	}{
		{"get/grpc", func(ctx context.Context) error {
			_, err := machines.GetMachine(ctx, &holdfastv1.GetMachineRequest{MachineId: "m-001"})
			return err
		}},
		{"get/http", func(context.Context) error { return get("/v1/machines/m-001") }},
		{"list/grpc", func(ctx context.Context) error {
			_, err := machines.ListMachines(ctx, &holdfastv1.ListMachinesRequest{})
			return err
		}},
		{"list/http", func(context.Context) error { return get("/v1/machines") }},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			before := processorTime(b)
			for b.Loop() {
				if err := c.call(ctx); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(processorTime(b)-before)/float64(b.N), "cpu-ns/op")
		})
	}
}

// overGRPC serves the lab over gRPC.
func overGRPC(b *testing.B, l *apitest.Lab) holdfastv1.MachineServiceClient {
	b.Helper()
	g := grpc.NewServer(l.Server.GRPCOptions()...)
	l.Server.Register(g)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = g.Serve(listener) // ends with Stop
	}()
	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = conn.Close()
		g.Stop()
		<-done
	})
	return holdfastv1.NewMachineServiceClient(conn)
}
