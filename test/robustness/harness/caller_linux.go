package harness

import (
	"context"
	"strconv"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/internal/localcluster"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

const callTime = 2 * time.Second // of one call of a Caller

// Caller makes calls to one peer, and no other, as an admin or with a token. It must be
// closed.
type Caller struct {
	Peer     *localcluster.Peer
	conn     *grpc.ClientConn
	machines holdfastv1.MachineServiceClient
	token    string
}

// Caller returns a Caller of a peer. Without a token it is an admin with a certificate.
func (c *Cluster) Caller(p *localcluster.Peer, token string) (*Caller, error) {
	creds := c.Credentials()
	if token != "" {
		creds = c.Anonymous()
	}
	conn, err := grpc.NewClient("passthrough:///"+p.GRPCAddr, grpc.WithTransportCredentials(creds),
		grpc.WithDisableRetry(),
		grpc.WithConnectParams(grpc.ConnectParams{MinConnectTimeout: time.Second,
			Backoff: backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.5, Jitter: 0.2,
				MaxDelay: 500 * time.Millisecond}}))
	if err != nil {
		return nil, err
	}
	return &Caller{Peer: p, conn: conn, machines: holdfastv1.NewMachineServiceClient(conn), token: token}, nil
}

// Close closes the connection.
func (k *Caller) Close() { _ = k.conn.Close() }

func (k *Caller) do(
	ctx context.Context, consistency string, call func(context.Context, grpc.CallOption) error,
) (index uint64, err error) {
	ctx, stop := context.WithTimeout(ctx, callTime)
	defer stop()
	ctx = metadata.AppendToOutgoingContext(ctx, client.HeaderConsistency, consistency)
	if k.token != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+k.token)
	}
	var header metadata.MD
	err = call(ctx, grpc.Header(&header))
	for _, v := range header.Get(client.HeaderIndex) {
		index, _ = strconv.ParseUint(v, 10, 64)
	}
	return index, err
}

// Read makes a linearizable read, and returns the index of the state that was read.
func (k *Caller) Read(ctx context.Context) (uint64, error) {
	return k.do(ctx, "linearizable", k.get)
}

// Stale reads the peer's own state.
func (k *Caller) Stale(ctx context.Context) (uint64, error) { return k.do(ctx, "stale", k.get) }

func (k *Caller) get(ctx context.Context, o grpc.CallOption) error {
	_, err := k.machines.GetMachine(ctx, &holdfastv1.GetMachineRequest{MachineId: probeMachine}, o)
	return err
}

// Write makes a write.
func (k *Caller) Write(ctx context.Context) (uint64, error) {
	return k.do(ctx, "linearizable", func(ctx context.Context, o grpc.CallOption) error {
		_, err := k.machines.UpdateMachine(ctx, &holdfastv1.UpdateMachineRequest{
			Machine: &holdfastv1.Machine{
				MachineId: probeMachine,
				Labels:    map[string]string{"by": k.Peer.ID + " " + strconv.FormatInt(time.Now().UnixNano(), 10)},
			},
			UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"labels.by"}}}, o)
		return err
	})
}
