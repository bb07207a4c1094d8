package secret

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-metal/holdfast/internal/cli/app"
)

// TestInterruptedPassword checks that the prompt for a password ends with the context, and that the
// terminal echoes again.
func TestInterruptedPassword(t *testing.T) {
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip("NOT TESTED: no pseudo terminals:", err)
	}
	t.Cleanup(func() { _ = master.Close() })
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	tty, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tty.Close() })
	echoes := func() bool {
		attr, err := unix.IoctlGetTermios(int(tty.Fd()), unix.TCGETS)
		return err == nil && attr.Lflag&unix.ECHO != 0
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	asked := make(chan error, 1)
	go func() {
		_, err := ask(ctx, (&app.App{Streams: app.Streams{In: tty, Err: io.Discard}}), "password", true)
		asked <- err
	}()
	for deadline := time.Now().Add(10 * time.Second); echoes(); {
		if time.Now().After(deadline) {
			t.Fatal("wait for the prompt: timed out")
		}
		time.Sleep(5 * time.Millisecond) // sleep: between polls of the terminal
	}
	cancel()
	select {
	case err := <-asked:
		if !errors.Is(err, context.Canceled) || !echoes() {
			t.Errorf("got %v and echo %v, want canceled and echo", err, echoes())
		}
	case <-time.After(3 * time.Second):
		t.Error("the prompt has not ended with its context")
	}
	_, _ = master.WriteString("x\n") // ends the read
}
