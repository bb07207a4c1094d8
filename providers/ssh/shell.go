package sshexec

import (
	"bufio"
	"context"
	"crypto/rand"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/internal/text"
)

//go:embed host/agent.sh
var agentScript string

// maxBanner bounds the output of a login shell before the agent starts.
const maxBanner = 64 << 10

// shell is a session with a running agent. It handles one request at a time.
type shell struct {
	session *ssh.Session
	in      io.WriteCloser
	out     *bufio.Reader
	said    *tail

	clock int64     // of the host at time at, in hundredths of a second since boot
	at    time.Time // the host read its clock before this time

	linked time.Time // when the connection was opened
	over   bool      // Wait was called on the session

	boot    string // id
	systemd bool
}

// start is the command for the user's login shell. Within quotes it has no character that a login
// shell would interpret. The locale is C, because refused matches English messages.
const start = `exec /bin/sh -c 's=; LC_ALL=C; export LC_ALL; [ "$(id -u)" = 0 ] || s="sudo -n"; ` +
	`exec $s /bin/sh -c "read -r n; eval \"\$(head -c \$n)\""'`

// open starts an agent. It needs two round trips and leaves nothing behind.
func (l *link) open(cfg Config) (*shell, error) {
	session, err := l.session()
	if err != nil {
		return nil, &broken{err}
	}
	sh, err := attach(session, cfg)
	if err != nil {
		_ = session.Close()
		return nil, err
	}
	return sh, nil
}

// session opens a session, or returns an error if the connection has ended. NewSession does not
// always return: mux.loop of x/crypto drops its channels before it closes the connection, so a
// session that is requested at that moment waits forever. The moment is likely, because the end of
// a shell is how we notice the end of a connection. Then one small goroutine is left behind.
func (l *link) session() (*ssh.Session, error) {
	type opened struct {
		session *ssh.Session
		err     error
	}
	got := make(chan opened, 1)
	go func() {
		s, err := l.client.NewSession()
		got <- opened{s, err}
	}()
	select {
	case o := <-got:
		return o.session, o.err
	case <-l.done:
		return nil, errors.New("the connection has ended")
	}
}

func attach(session *ssh.Session, cfg Config) (*shell, error) {
	in, err := session.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := session.StdoutPipe()
	if err != nil {
		return nil, err
	}
	sh := &shell{session: session, in: in, out: bufio.NewReaderSize(out, maxLine), said: new(tail)}
	session.Stderr = sh.said
	if err := session.Start(start); err != nil {
		return nil, &broken{fmt.Errorf("start a shell: %w", err)}
	}
	nonce := rand.Text()
	library := fmt.Sprintf("hf_base=%s hf_nonce=%s hf_days=%d\n%s", cfg.StateDir, nonce, cfg.KeepDays, agentScript)
	if _, err := fmt.Fprintf(in, "%d\n%s", len(library), library); err != nil {
		return nil, sh.ended(err)
	}
	return sh, sh.ready(nonce)
}

// ready waits for the first line of the agent, and skips the output of the login shell.
func (s *shell) ready(nonce string) error {
	for read := 0; ; {
		raw, err := s.out.ReadSlice('\n')
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return s.ended(err)
		}
		if read += len(raw); read > maxBanner {
			return &hostError{providers.Unsupported, "the login shell prints too much output"}
		}
		words := strings.Fields(string(raw))
		if len(words) < 5 || words[0] != "ready" || words[1] != nonce {
			continue
		}
		if len(words) > 5 {
			return &hostError{providers.Unsupported, "the host lacks " + words[5]}
		}
		s.boot, s.systemd = words[3], words[4] == "systemd"
		return s.setClock(words[2])
	}
}

func (s *shell) setClock(uptime string) error {
	n, err := strconv.ParseInt(uptime, 10, 64)
	if err != nil {
		return fmt.Errorf("%w: uptime %q", errReply, text.Clip(uptime, 40))
	}
	s.clock, s.at = n, time.Now()
	return nil
}

// ended returns the reason why an agent is gone.
func (s *shell) ended(err error) error {
	if errors.Is(err, io.EOF) && !s.over {
		s.over = true
		_ = s.session.Wait() // stderr may arrive after the end of stdout
	}
	said := s.said.String()
	switch {
	case s.boot == "" && refused(said): // the agent has not started
		return &hostError{providers.Auth, "the user is not root and cannot use sudo without a password: " + said}
	case said != "" && errors.Is(err, io.EOF):
		return &broken{fmt.Errorf("the shell on the host ended: %s", said)}
	case errors.Is(err, io.EOF):
		return &broken{errors.New("the shell on the host ended")}
	}
	return &broken{err}
}

// refused reports whether sudo refused the user, or is missing. Other messages of sudo may be
// warnings, for example that it cannot resolve the host name, and then the shell ended for another
// reason.
func refused(said string) bool {
	said = strings.ToLower(said)
	return slices.ContainsFunc([]string{
		"a password is required",
		"a terminal is required",
		"no tty present",
		"must have a tty",
		"not in the sudoers file",
		"is not allowed to",
		"may not run sudo",
		"account validation failure",
		"authentication is required", "afraid i can't do that", // sudo-rs
		"sudo: not found", "sudo: command not found",
	}, func(words string) bool { return strings.Contains(said, words) })
}

// ask sends a request and reads the answer.
func (s *shell) ask(request string, parse func(words []string) error) error {
	_, werr := io.WriteString(s.in, request)
	err := readReply(s.out, parse) // even if the write failed: the agent may have sent an error
	var he *hostError
	switch {
	case err == nil, errors.As(err, &he), errors.Is(err, lateError{}):
		return err
	case werr != nil:
		return s.ended(werr)
	case errors.Is(err, errReply):
		return &broken{err}
	}
	return s.ended(err)
}

// ping sends a heartbeat and reads the host's clock.
func (s *shell) ping() error {
	return s.ask("hf_ping\n", func(words []string) error {
		if len(words) != 2 || words[0] != "pong" {
			return errReply
		}
		return s.setClock(words[1])
	})
}

// maxEffect is the time limit of an effect without a not-after time.
const maxEffect = time.Hour

// until returns the not-after time of ctx by the host's clock. It is early by the time that the
// reading of the clock was in transit, and never late.
func (s *shell) until(ctx context.Context) int64 {
	left := maxEffect
	if t, ok := providers.NotAfter(ctx); ok {
		// Both clocks count, as in providers.InTime.
		left = min(t.Sub(s.at), t.Round(0).Sub(s.at.Round(0)))
	}
	return max(0, s.clock+int64(left/(10*time.Millisecond)))
}

// confirmed returns the time until which a staged job may begin, by the host's clock. Staging can
// take a slow host longer than any effect may wait. It is no effect, so the confirmation comes
// after it. A job that must not begin any more is dropped.
func (s *shell) confirmed(ctx context.Context, op, nonce string) (until int64, err error) {
	if err := s.ping(); err != nil { // read the clock again, because staging took time
		return 0, err
	}
	ctx, err = providers.Confirmed(ctx, op)
	if err != nil {
		return 0, errors.Join(err, s.ask(line("hf_drop", nonce), only("ok")))
	}
	return s.until(ctx), nil
}

// connected returns the time at which the connection was opened, or slightly earlier, by the host's
// clock.
func (s *shell) connected() int64 {
	return s.clock - int64(s.at.Sub(s.linked)/(10*time.Millisecond)) - 1
}

// tail keeps the end of a host's stderr.
type tail struct {
	mu  sync.Mutex
	buf []byte
}

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, b...)
	if n := len(t.buf) - maxLine; n > 0 {
		t.buf = append(t.buf[:0], t.buf[n:]...)
	}
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return text.Clip(string(t.buf), 500)
}
