package workload

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// peer is a connection to exactly one peer.
type peer struct {
	conn     *grpc.ClientConn
	machines holdfastv1.MachineServiceClient
	plans    holdfastv1.PlanServiceClient
	runs     holdfastv1.RunServiceClient
	pools    holdfastv1.PoolServiceClient
	services holdfastv1.RegistryServiceClient
	access   holdfastv1.AccessServiceClient
	secrets  holdfastv1.SecretServiceClient
}

// dial returns a connection to each peer. It connects lazily, and reconnects soon after a
// peer has come back.
func dial(addrs []string, creds credentials.TransportCredentials) ([]peer, error) {
	var all []peer
	for _, addr := range addrs {
		conn, err := grpc.NewClient("passthrough:///"+addr,
			grpc.WithTransportCredentials(creds), grpc.WithDisableRetry(), grpc.WithStatsHandler(sentHandler{}),
			grpc.WithConnectParams(grpc.ConnectParams{MinConnectTimeout: time.Second,
				Backoff: backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.5, Jitter: 0.2,
					MaxDelay: 500 * time.Millisecond}}))
		if err != nil {
			return nil, errors.Join(fmt.Errorf("connect to %s: %w", addr, err), hangUp(all))
		}
		all = append(all, peer{conn: conn, machines: holdfastv1.NewMachineServiceClient(conn),
			plans: holdfastv1.NewPlanServiceClient(conn), runs: holdfastv1.NewRunServiceClient(conn),
			pools:    holdfastv1.NewPoolServiceClient(conn),
			services: holdfastv1.NewRegistryServiceClient(conn), access: holdfastv1.NewAccessServiceClient(conn),
			secrets: holdfastv1.NewSecretServiceClient(conn)})
	}
	return all, nil
}

func hangUp(all []peer) error {
	var errs []error
	for _, p := range all {
		errs = append(errs, p.conn.Close())
	}
	return errors.Join(errs...)
}

// Metadata of calls (docs/concepts.md).
const (
	headerConsistency = "holdfast-consistency"
	headerIndex       = "holdfast-index"
)

// stale returns a context for reads of the peer's own state.
func stale(ctx context.Context) context.Context {
	return metadata.AppendToOutgoingContext(ctx, headerConsistency, "stale")
}

func indexOf(md metadata.MD) uint64 {
	for _, v := range md.Get(headerIndex) {
		if i, err := strconv.ParseUint(v, 10, 64); err == nil {
			return i
		}
	}
	return 0
}

func seenMachine(m *holdfastv1.Machine) MachineSeen {
	return MachineSeen{
		ID:       m.GetMachineId(),
		Value:    m.GetLabels()[LabelKey],
		Active:   m.GetStatus().GetActiveRunId(),
		Revision: m.GetRevision(),
	}
}

// SeenRun returns the part of a run that the checks compare.
func SeenRun(r *holdfastv1.Run) RunSeen {
	ended := r.GetPhase() == holdfastv1.Run_SUCCEEDED || r.GetPhase() == holdfastv1.Run_FAILED ||
		r.GetPhase() == holdfastv1.Run_CANCELED
	return RunSeen{ID: r.GetRunId(), Machine: r.GetMachineId(), Request: r.GetRequestId(), Plan: r.GetPlanId(),
		Phase: r.GetPhase().String(), Ended: ended, Revision: r.GetRevision()}
}
