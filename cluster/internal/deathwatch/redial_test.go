package deathwatch

import (
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
)

// An ending process resets connections before its listener is closed. Only a refused connection
// proves its end.
func TestRedial(t *testing.T) {
	reset := fmt.Errorf("connect to the peer: %w",
		&net.OpError{Op: "read", Err: os.NewSyscallError("read", syscall.ECONNRESET)})
	refused := &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	for _, tt := range []struct {
		name  string
		tries []error
		want  error
		dials int
	}{
		{"alive", []error{nil}, nil, 1},
		{"ended", []error{refused}, refused, 1},
		{"ending", []error{reset, syscall.EPIPE, io.EOF, refused}, refused, 4},
		{"one reset", []error{reset, nil}, nil, 2},
		{"always reset", []error{reset}, reset, redials},
		{"unreachable", []error{syscall.EHOSTUNREACH}, syscall.EHOSTUNREACH, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dials := 0
				_, err := redial(t.Context(), func() (net.Conn, error) {
					dials++
					return nil, tt.tries[min(dials, len(tt.tries))-1]
				})
				if diff := cmp.Diff(fmt.Sprint(tt.want, tt.dials), fmt.Sprint(err, dials)); diff != "" {
					t.Errorf("error and dials (-want +got):\n%s", diff)
				}
			})
		})
	}
}
