package chassis

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// line is the serial line of a machine: a terminal that outlives the machine, and a log of
// its output.
type line struct {
	path   string // of the terminal, for a BMC that serves it over the network
	master *os.File
	slave  *os.File // held open, so that it does not hang up without a reader
	log    *os.File

	mu   sync.Mutex
	conn net.Conn // of the running machine, or nil
}

func newLine(logFile string) (*line, error) {
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open a terminal: %w", err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		_, err = term.MakeRaw(fd)
	}
	// Non-blocking, for deadlines.
	l := &line{path: fmt.Sprintf("/dev/pts/%d", n), master: os.NewFile(uintptr(fd), "ptmx")}
	if err == nil {
		err = removeLock(n)
	}
	if err == nil {
		l.slave, err = os.OpenFile(l.path, os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err == nil {
		l.log, err = os.OpenFile(logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open a terminal: %w", err), l.close())
	}
	go l.typed() // ends with close
	return l, nil
}

// removeLock removes the lock file of a new terminal, which has no other user. ipmi_sim leaves it
// behind when it is killed, and refuses the terminal if another process has its id by now.
func removeLock(terminal int) error {
	err := os.Remove(fmt.Sprintf("/var/lock/LCK..%d", terminal))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// typed passes input to the running machine.
func (l *line) typed() {
	b := make([]byte, 256)
	for {
		n, err := l.master.Read(b)
		if err != nil {
			return
		}
		l.mu.Lock()
		if l.conn != nil {
			_, _ = l.conn.Write(b[:n])
		}
		l.mu.Unlock()
	}
}

func (l *line) attach(c net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conn = c
}

// tee reads the machine's output, and writes it to the terminal. Output is dropped if the
// terminal is full.
func (l *line) tee(c net.Conn) io.Reader {
	return io.TeeReader(c, io.MultiWriter(l.log, screen{l.master}))
}

type screen struct{ f *os.File }

func (s screen) Write(b []byte) (int, error) {
	if err := s.f.SetWriteDeadline(time.Now().Add(10 * time.Millisecond)); err == nil {
		_, _ = s.f.Write(b)
	}
	return len(b), nil
}

func (l *line) close() error {
	var errs []error
	for _, f := range []*os.File{l.master, l.slave, l.log} {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	return errors.Join(errs...)
}
