package simulate

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/holdfast-metal/holdfast/providers/fake"
)

// headerTimeout limits the time in which a peer must send the header of a request.
const headerTimeout = 10 * time.Second

// hardware serves the machines' BMCs until ctx ends. Its address is the endpoint of a provider of
// kind fake.
func (f *fleet) hardware(ctx context.Context) error {
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", f.Hardware)
	if err != nil {
		return fmt.Errorf("listen for --bmc-listen: %w", err)
	}
	srv := &http.Server{Handler: fake.NewFleet(fake.Config{}).Handler(), ReadHeaderTimeout: headerTimeout}
	f.say("BMCs at http://%s", ln.Addr())
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		if err := srv.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serve BMCs on %s: %w", ln.Addr(), err)
		}
		return nil
	})
	g.Go(func() error {
		<-ctx.Done()
		return srv.Close() // open requests fail, as with BMCs that lose power
	})
	return g.Wait()
}
