package serve

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"
)

// serveHTTP serves, with TLS if it is configured, until ctx ends, then waits briefly for active
// requests.
func serveHTTP(ctx context.Context, s *http.Server, ln net.Listener) error {
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		serve := s.Serve
		if s.TLSConfig != nil {
			serve = func(l net.Listener) error { return s.ServeTLS(l, "", "") }
		}
		if err := serve(ln); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serve HTTP on %s: %w", ln.Addr(), err)
		}
		return nil
	})
	g.Go(func() error {
		<-gctx.Done()
		stop, cancel := context.WithTimeout(context.WithoutCancel(gctx), 2*time.Second)
		defer cancel()
		if err := s.Shutdown(stop); err != nil {
			return s.Close()
		}
		return nil
	})
	return g.Wait()
}

// dashboardURL returns the URL of the dashboard.
func dashboardURL(tls bool, addr net.Addr) string {
	if tls {
		return "https://" + addr.String() + "/ui/"
	}
	return "http://" + addr.String() + "/ui/"
}
