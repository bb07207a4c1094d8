package guard_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-metal/holdfast/providers/guard"
)

// TestErrorsArePlain checks the errors of odd servers: their texts are for an operator, and their
// causes can still be found.
func TestErrorsArePlain(t *testing.T) {
	t.Parallel()
	say := func(text string) func(net.Conn) {
		return func(c net.Conn) {
			_, _ = io.ReadFull(c, make([]byte, 16))
			_, _ = io.WriteString(c, text)
		}
	}
	for name, tc := range map[string]struct {
		serve  func(net.Conn)
		scheme string
		want   string
		is     error
	}{
		"closed at once": {say(""), "http", "closed the connection", io.EOF},
		"cut off": {say("HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{"), "http", "the answer was cut off",
			io.ErrUnexpectedEOF},
		"not HTTP":         {say("SSH-2.0-dropbear\r\n"), "http", "not valid HTTP", nil},
		"odd header":       {say("HTTP/1.1 200 OK\r\n: x\r\n\r\n"), "http", "not valid HTTP", nil},
		"odd length":       {say("HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n"), "http", "not valid HTTP", nil},
		"no TLS":           {say("HTTP/1.1 400 Bad Request\r\n\r\n"), "https", "does not speak TLS", nil},
		"another protocol": {say("220 mail ESMTP ready\r\n"), "https", "does not speak TLS", nil},
		"silent": {func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }, "http", "no answer in time",
			context.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = l.Close() }()
			go func() {
				for {
					c, err := l.Accept()
					if err != nil {
						return
					}
					go func() {
						tc.serve(c)
						_ = c.(*net.TCPConn).CloseWrite()
						_, _ = io.Copy(io.Discard, c)
						_ = c.Close()
					}()
				}
			}()
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			if errors.Is(tc.is, context.DeadlineExceeded) {
				ctx, cancel = context.WithTimeout(t.Context(), 50*time.Millisecond)
			}
			defer cancel()
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, tc.scheme+"://"+l.Addr().String()+"/", nil)
			if err != nil {
				t.Fatal(err)
			}
			res, err := guard.Client(&http.Transport{DisableKeepAlives: true}).Do(req)
			if err == nil {
				_, err = io.ReadAll(res.Body)
				_ = res.Body.Close()
			}
			if err == nil || !strings.Contains(err.Error(), tc.want) || tc.is != nil && !errors.Is(err, tc.is) {
				t.Fatalf("got %v, want %q in it, and %v", err, tc.want, tc.is)
			}
			for _, word := range []string{"EOF", "malformed", "context", "net/http", "tls:", "invalid"} {
				if strings.Contains(err.Error(), word) {
					t.Errorf("got %q with %q in it", err, word)
				}
			}
		})
	}
}
