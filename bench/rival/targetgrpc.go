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

// sameMachine returns the same machine for every request, to measure gRPC and TLS alone.
type sameMachine struct {
	holdfastv1.UnimplementedMachineServiceServer
	machine *holdfastv1.Machine
}

// GetMachine returns the machine.
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
