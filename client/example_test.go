package client_test

import (
	"context"
	"fmt"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/test/bufconn"

	"github.com/holdfast-metal/holdfast/client"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// exampleServer is a control plane with one run, which succeeds during a watch.
type exampleServer struct {
	holdfastv1.UnimplementedRunServiceServer
}

func (exampleServer) StartRun(_ context.Context, r *holdfastv1.StartRunRequest) (*holdfastv1.Run, error) {
	return &holdfastv1.Run{RunId: "run-789", MachineId: r.GetMachineId(), RequestId: r.GetRequestId(),
		Phase: holdfastv1.Run_PENDING}, nil
}

func (exampleServer) GetRun(_ context.Context, r *holdfastv1.GetRunRequest) (*holdfastv1.Run, error) {
	return &holdfastv1.Run{RunId: r.GetRunId(), Phase: holdfastv1.Run_PENDING, Revision: 7}, nil
}

func (exampleServer) WatchRuns(
	_ *holdfastv1.WatchRunsRequest, s grpc.ServerStreamingServer[holdfastv1.RunEvent],
) error {
	for i, phase := range []holdfastv1.Run_Phase{holdfastv1.Run_PENDING, holdfastv1.Run_RUNNING,
		holdfastv1.Run_SUCCEEDED} {
		at := uint64(7 + i)
		if err := s.Send(&holdfastv1.RunEvent{Cursor: at, Snapshot: &holdfastv1.Run{RunId: "run-789", Phase: phase,
			Revision: at}}); err != nil {
			return err
		}
	}
	return nil
}

func (exampleServer) StreamRunLogs(
	_ *holdfastv1.StreamRunLogsRequest, s grpc.ServerStreamingServer[holdfastv1.LogChunk],
) error {
	return s.Send(&holdfastv1.LogChunk{Data: []byte("power off\npower on\n")})
}

// exampleConfig stands for client.Config{Addrs: []string{"peer-1:7400", "peer-2:7400",
// "peer-3:7400"}}.
func exampleConfig() (client.Config, func()) {
	lis := bufconn.Listen(1 << 16)
	server := grpc.NewServer()
	holdfastv1.RegisterRunServiceServer(server, exampleServer{})
	go func() { _ = server.Serve(lis) }()
	dialer := grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return lis.DialContext(ctx) })
	return client.Config{Addrs: []string{"peer-1", "peer-2", "peer-3"},
		DialOptions: []grpc.DialOption{dialer}}, server.Stop
}

// It is safe to repeat a start with the same request id. The client does so by itself if a peer
// fails meanwhile.
func Example() {
	cfg, stop := exampleConfig()
	defer stop()
	c, err := client.Dial(cfg)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = c.Close() }()

	ctx := context.Background()
	run, err := c.Runs().StartRun(ctx, &holdfastv1.StartRunRequest{
		RequestId: "req-456", MachineId: "m-123", Type: "REBOOT",
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	run, err = c.WaitRun(ctx, run.GetRunId())
	fmt.Println(run.GetRunId(), run.GetPhase(), err)
	// Output: run-789 SUCCEEDED <nil>
}

// If its peer fails, a watch continues at another one after the last event.
func ExampleClient_WatchRuns() {
	cfg, stop := exampleConfig()
	defer stop()
	c, err := client.Dial(cfg)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = c.Close() }()

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	err = c.WatchRuns(ctx, `machine_id = "m-123"`, 0, func(e *holdfastv1.RunEvent) error {
		fmt.Println(e.GetSnapshot().GetPhase())
		if client.Finished(e.GetSnapshot()) {
			cancel() // otherwise it continues with the next run of the machine
		}
		return nil
	})
	fmt.Println(err)
	// Output:
	// PENDING
	// RUNNING
	// SUCCEEDED
	// context canceled
}

func ExampleClient_FollowLogs() {
	cfg, stop := exampleConfig()
	defer stop()
	c, err := client.Dial(cfg)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = c.Close() }()

	err = c.FollowLogs(context.Background(), "run-789", 0, func(chunk *holdfastv1.LogChunk) error {
		fmt.Print(string(chunk.GetData()))
		return nil
	})
	fmt.Println(err)
	// Output:
	// power off
	// power on
	// <nil>
}

// A stale read returns the state of the peer without a round trip to the others. The client still
// reads its own writes.
func ExampleWithConsistency() {
	cfg, stop := exampleConfig()
	defer stop()
	c, err := client.Dial(cfg)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = c.Close() }()

	ctx := client.WithConsistency(context.Background(), client.Consistency{Stale: true})
	run, err := c.Runs().GetRun(ctx, &holdfastv1.GetRunRequest{RunId: "run-789"})
	fmt.Println(run.GetPhase(), err)
	// Output: PENDING <nil>
}
