package chassis

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"
)

// Serve serves BMCs on a unix socket until stop is called.
func (m *Machine) Serve() (socket string, stop func() error, err error) {
	socket = m.path("chassis.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		return "", nil, fmt.Errorf("serve the chassis of %s: %w", m.cfg.Name, err)
	}
	s := &http.Server{Handler: Handler(m), ReadHeaderTimeout: time.Minute}
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	return socket, func() error {
		err := s.Close()
		if served := <-done; !errors.Is(served, http.ErrServerClosed) {
			err = errors.Join(err, served)
		}
		return err
	}, nil
}
