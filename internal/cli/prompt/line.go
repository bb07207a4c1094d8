package prompt

import (
	"context"
	"strings"

	"github.com/holdfast-metal/holdfast/internal/cli/app"
)

// ReadLine reads a line of the input, or "" at its end. It returns when the context ends, although
// a read of a terminal cannot be interrupted: the process then ends, and with it the read.
func ReadLine(ctx context.Context, a *app.App) (string, error) {
	line := make(chan string, 1)
	go func() {
		var b strings.Builder
		for one := make([]byte, 1); ; { // byte by byte: what comes after the line is for the next question
			n, err := a.In.Read(one)
			if n == 0 && err != nil || n > 0 && one[0] == '\n' {
				break
			}
			b.Write(one[:n])
		}
		line <- strings.TrimSuffix(b.String(), "\r")
	}()
	select {
	case text := <-line:
		return text, nil
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}
