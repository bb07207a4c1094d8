package sshexec

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/internal/text"
)

// Limits of a host's answers.
const (
	maxLine  = 4096
	maxText  = 2000
	maxPiece = 1 << 20
)

// errReply means that the answer of a host cannot be parsed.
var errReply = errors.New("unexpected answer of the host")

// readLine reads a line of the agent and splits it into words.
func readLine(r *bufio.Reader) ([]string, error) {
	raw, err := r.ReadSlice('\n')
	if err != nil {
		if errors.Is(err, bufio.ErrBufferFull) {
			return nil, fmt.Errorf("%w: a line is too long", errReply)
		}
		if errors.Is(err, io.EOF) && len(raw) > 0 {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	return strings.Fields(string(raw)), nil
}

func number(s string, most int64) (int64, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 || n > most {
		return 0, fmt.Errorf("%w: %s is not a number from 0 to %d", errReply, strconv.Quote(text.Clip(s, 40)), most)
	}
	return n, nil
}

func readBytes(r io.Reader, n int64) ([]byte, error) {
	b := make([]byte, n)
	_, err := io.ReadFull(r, b)
	return b, err
}

// hostError is an error returned by the agent. Nothing was done, unless its class is Timeout.
type hostError struct {
	class providers.Class
	text  string
}

func (e *hostError) Error() string { return e.text }

// lateError means that the host refused an effect because it arrived too late.
type lateError struct{}

func (lateError) Error() string { return "refused by the host: too late" }

// readReply reads an answer to its end. It calls parse with the words of the first line, unless the
// answer is an error.
func readReply(r *bufio.Reader, parse func(words []string) error) error {
	words, err := readLine(r)
	if err != nil {
		return err
	}
	var said error
	switch {
	case len(words) == 3 && words[0] == "err":
		n, err := number(words[2], maxText)
		if err != nil {
			return err
		}
		b, err := readBytes(r, n)
		if err != nil {
			return err
		}
		e := &hostError{providers.Transient, text.Clip(string(b), maxText)}
		if c := providers.Class(words[1]); c == providers.Unsupported || c == providers.Timeout {
			e.class = c
		}
		said = e
	case len(words) == 2 && words[0] == "late":
		said = lateError{}
	case len(words) == 0:
		return fmt.Errorf("%w: it is empty", errReply)
	default:
		if err := parse(words); err != nil {
			return err
		}
	}
	end, err := readLine(r)
	if err == nil && (len(end) != 1 || end[0] != "end") {
		err = fmt.Errorf("%w: missing end line", errReply)
	}
	if said != nil {
		return said // the agent may end after an error
	}
	return err
}

// only returns a parser for an answer of one word.
func only(want string) func([]string) error {
	return func(words []string) error {
		if len(words) != 1 || words[0] != want {
			return fmt.Errorf("%w: %q instead of %q", errReply, text.Clip(strings.Join(words, " "), 100), want)
		}
		return nil
	}
}

// readStatus parses the answer of hf_status for an offset: state, code, size of the reason, number
// of pieces, the reason, the pieces.
func readStatus(r *bufio.Reader, words []string, offset int64) (s providers.CommandStatus, why string, err error) {
	if len(words) != 5 || words[0] != "status" {
		return s, "", fmt.Errorf("%w: %q", errReply, text.Clip(strings.Join(words, " "), 100))
	}
	switch s.State = providers.WorkState(words[1]); s.State {
	case providers.WorkNone, providers.WorkRunning, providers.WorkDone, providers.WorkFailed:
	default:
		return s, "", fmt.Errorf("%w: state %q", errReply, text.Clip(words[1], 40))
	}
	if s.ExitCode, err = strconv.Atoi(words[2]); err != nil {
		return s, "", fmt.Errorf("%w: exit code %q", errReply, text.Clip(words[2], 40))
	}
	size, err := number(words[3], maxText)
	if err != nil {
		return s, "", err
	}
	pieces, err := number(words[4], 1000)
	if err != nil {
		return s, "", err
	}
	reason, err := readBytes(r, size)
	if err != nil {
		return s, "", err
	}
	s.Next = offset
	for range pieces {
		head, err := readLine(r)
		if err != nil {
			return s, "", err
		}
		if len(head) != 2 || head[0] != "out" && head[0] != "err" {
			return s, "", fmt.Errorf("%w: piece %q", errReply, text.Clip(strings.Join(head, " "), 100))
		}
		n, err := number(head[1], maxPiece)
		if err != nil {
			return s, "", err
		}
		data, err := readBytes(r, n)
		if err != nil {
			return s, "", err
		}
		s.Output = append(s.Output, providers.Output{Stream: "std" + head[0], Data: data})
		s.Next += n
	}
	return s, text.Clip(string(reason), maxText), nil
}
