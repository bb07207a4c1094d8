package rival

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/holdfast-metal/holdfast/bench/load"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// TargetVerb is the name of the command that runs the empty handler.
const TargetVerb = "target"

// TargetCommand returns the hidden command that runs the empty handler. It ends with its standard
// input, so it does not survive a benchmark that is killed. Over gRPC it always answers the
// machine.
func TargetCommand(machine *holdfastv1.Machine) *cobra.Command {
	var cert, key string
	var speaksGRPC bool
	cmd := &cobra.Command{
		Use: TargetVerb, Hidden: true, Args: cobra.NoArgs, Short: "Run the empty handler of a benchmark",
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := context.WithCancel(cmd.Context())
			defer stop()
			go func() { // ends with the process
				_, _ = io.Copy(io.Discard, cmd.InOrStdin())
				stop()
			}()
			if speaksGRPC {
				return serveGRPC(ctx, cmd.OutOrStdout(), cert, key, machine)
			}
			return serveTarget(ctx, cmd.OutOrStdout(), cert, key,
				http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&cert, "cert", "", "`file` with the certificate (default: no TLS)")
	fs.StringVar(&key, "key", "", "`file` with the key")
	fs.BoolVar(&speaksGRPC, "grpc", false, "serve GetMachine over gRPC, always with the same response")
	return cmd
}

// serveTarget serves on a free port of loopback until ctx ends. It writes the address and the
// process id.
func serveTarget(ctx context.Context, out io.Writer, cert, key string, h http.Handler) error {
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	srv := &http.Server{Handler: h, ReadHeaderTimeout: load.CallTimeout}
	if cert != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return errors.Join(fmt.Errorf("load the certificate: %w", err), ln.Close())
		}
		srv.TLSConfig = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	}
	if _, err := fmt.Fprintln(out, ln.Addr(), os.Getpid()); err != nil {
		return errors.Join(err, ln.Close())
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		<-ctx.Done()
		return srv.Close()
	})
	g.Go(func() error {
		serve := srv.Serve
		if srv.TLSConfig != nil {
			serve = func(l net.Listener) error { return srv.ServeTLS(l, "", "") }
		}
		if err := serve(ln); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serve: %w", err)
		}
		return nil
	})
	return g.Wait()
}

// Process is a process to compare with.
type Process struct {
	Addr string
	PIDs []int
	cmd  *exec.Cmd
	in   io.Closer
}

// Start starts a process and waits until it has written its address and its process ids.
func Start(program string, args ...string) (*Process, error) {
	kind := filepath.Base(program)
	cmd := exec.Command(program, args...) //nolint:gosec // our own executables; they end with their standard input
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", kind, err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", kind, err)
	}
	var said strings.Builder
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", kind, err)
	}
	r := &Process{cmd: cmd, in: in}
	late := time.AfterFunc(load.CallTimeout, func() { _ = in.Close() })
	defer late.Stop()
	line, err := bufio.NewReader(out).ReadString('\n')
	fields := strings.Fields(line)
	if err != nil || len(fields) < 2 {
		return nil, fmt.Errorf("start %s: it does not serve: %w: %s", kind, errors.Join(err, r.Close()), said.String())
	}
	r.Addr = fields[0]
	for _, f := range fields[1:] {
		pid, err := strconv.Atoi(f)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("start %s: read the id of a process: %w", kind, err), r.Close())
		}
		r.PIDs = append(r.PIDs, pid)
	}
	return r, nil
}

// Close ends the process.
func (r *Process) Close() error {
	_ = r.in.Close()
	late := time.AfterFunc(load.CallTimeout, func() { _ = r.cmd.Process.Kill() })
	defer late.Stop()
	if err := r.cmd.Wait(); err != nil {
		return fmt.Errorf("end %s: %w", r.cmd.Path, err)
	}
	return nil
}
