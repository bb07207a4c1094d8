package rival

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// sameMachine answers a machine out of its memory, whatever it is asked for: what gRPC and TLS cost
// by themselves.
type sameMachine struct {
	holdfastv1.UnimplementedMachineServiceServer
	machine *holdfastv1.Machine
}

// GetMachine answers it.
func (s sameMachine) GetMachine(context.Context, *holdfastv1.GetMachineRequest) (*holdfastv1.Machine, error) {
	return s.machine, nil
}

// serveGRPC is serveTarget for gRPC.
func serveGRPC(ctx context.Context, out io.Writer, cert, key string, machine *holdfastv1.Machine) error {
	creds, err := credentials.NewServerTLSFromFile(cert, key)
	if err != nil {
		return fmt.Errorf("load the certificate: %w", err)
	}
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	srv := grpc.NewServer(grpc.Creds(creds))
	holdfastv1.RegisterMachineServiceServer(srv, sameMachine{machine: machine})
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		<-ctx.Done()
		srv.Stop()
		return nil
	})
	g.Go(func() error {
		if _, err := fmt.Fprintln(out, ln.Addr(), os.Getpid()); err != nil {
			return err
		}
		return srv.Serve(ln)
	})
	return g.Wait()
}
