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
)

//go:embed host/agent.sh
var agentScript string

// maxBanner is how much a login shell may print before the agent speaks.
const maxBanner = 64 << 10

// shell is a session with a running agent. It serves one request at a time.
type shell struct {
	session *ssh.Session
	in      io.WriteCloser
	out     *bufio.Reader
	said    *tail

	clock int64     // of the host, in hundredths of a second since it booted
	at    time.Time // the clock showed that before this moment

	linked time.Time // when the connection was made
	over   bool      // its session has been waited for

	boot    string // id
	systemd bool
}

// start is what the user's login shell is given. It has no character that any of them takes for
// something else within quotes. Refusals are to be in English: see refused.
const start = `exec /bin/sh -c 's=; LC_ALL=C; export LC_ALL; [ "$(id -u)" = 0 ] || s="sudo -n"; exec $s /bin/sh -c "read -r n; eval \"\$(head -c \$n)\""'`

// open starts an agent. It takes two round trips and leaves nothing behind.
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

// session opens one, or sees that the connection has ended. x/crypto does not always see it: a
// session that is asked for while a connection ends can come too late to be told, and is waited for
// without end (mux.loop drops its channels before it closes the connection). Just then we ask,
// since the end of a shell is how we learn of the connection's. What waits for ever then is one
// small goroutine, and nobody waits for that.
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

// ready waits for the agent's first words, past whatever the login shell prints.
func (s *shell) ready(nonce string) error {
	for read := 0; ; {
		raw, err := s.out.ReadSlice('\n')
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return s.ended(err)
		}
		if read += len(raw); read > maxBanner {
			return &hostError{providers.Unsupported, "the login shell prints without end"}
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
		return fmt.Errorf("%w: uptime %q", errReply, clip(uptime, 40))
	}
	s.clock, s.at = n, time.Now()
	return nil
}

// ended reports why an agent is not there any more.
func (s *shell) ended(err error) error {
	if errors.Is(err, io.EOF) && !s.over {
		s.over = true
		_ = s.session.Wait() // what it wrote to stderr may come later than the end of what it answered
	}
	said := s.said.String()
	switch {
	case s.boot == "" && refused(said): // it has not begun
		return &hostError{providers.Auth, "the user is not root and may not use sudo without a password: " + said}
	case said != "" && errors.Is(err, io.EOF):
		return &broken{fmt.Errorf("the shell on the host ended: %s", said)}
	case errors.Is(err, io.EOF):
		return &broken{errors.New("the shell on the host ended")}
	}
	return &broken{err}
}

// refused reports whether sudo did not let the user begin, or is not there. What else it says may
// be a warning: that it cannot resolve the name of the host, for one, and a shell then broke for
// another reason.
func refused(said string) bool {
	said = strings.ToLower(said)
	return slices.ContainsFunc([]string{
		"a password is required", "a terminal is required", "no tty present", "must have a tty", "not in the sudoers file", "is not allowed to", "may not run sudo", "account validation failure",
		"authentication is required", "afraid i can't do that", // sudo-rs
		"sudo: not found", "sudo: command not found",
	}, func(words string) bool { return strings.Contains(said, words) })
}

// ask sends a request and reads the answer.
func (s *shell) ask(request string, parse func(words []string) error) error {
	_, werr := io.WriteString(s.in, request)
	err := readReply(s.out, parse) // although writing failed: the agent may have said why
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

// ping asks for a heartbeat, and for the time.
func (s *shell) ping() error {
	return s.ask("hf_ping\n", func(words []string) error {
		if len(words) != 2 || words[0] != "pong" {
			return errReply
		}
		return s.setClock(words[1])
	})
}

// maxEffect is the time an effect has that has no not-after time.
const maxEffect = time.Hour

// until gives, by the host's clock, until when it may do what the context allows. It is early by
// the time that the clock's reading was on its way, and never late.
func (s *shell) until(ctx context.Context) int64 {
	left := maxEffect
	if t, ok := providers.NotAfter(ctx); ok {
		// Both clocks, as in providers.InTime: either can refuse.
		left = min(t.Sub(s.at), t.Round(0).Sub(s.at.Round(0)))
	}
	return max(0, s.clock+int64(left/(10*time.Millisecond)))
}

// confirmed returns until when, by the host's clock, what was staged may begin. Staging may take a
// slow host longer than any effect may wait, and is no effect: what counts is the time after it.
// What must not begin any more is dropped.
func (s *shell) confirmed(ctx context.Context, op, nonce string) (until int64, err error) {
	if err := s.ping(); err != nil { // two clocks are compared: not over the time that staging took
		return 0, err
	}
	ctx, err = providers.Confirmed(ctx, op)
	if err != nil {
		return 0, errors.Join(err, s.ask(line("hf_drop", nonce), only("ok")))
	}
	return s.until(ctx), nil
}

// connected gives, by the host's clock, when the connection was made, or a little earlier.
func (s *shell) connected() int64 {
	return s.clock - int64(s.at.Sub(s.linked)/(10*time.Millisecond)) - 1
}

// tail keeps the end of what a host writes to stderr.
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
	return clip(string(t.buf), 500)
}
