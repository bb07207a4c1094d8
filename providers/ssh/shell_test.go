package sshexec

import (
	"errors"
	"io"
	"testing"

	"github.com/holdfast-metal/holdfast/providers"
)

// Only refusals of sudo count as refusals: its warnings do not explain the end of a shell, and a
// shell that had begun was accepted.
func TestReasonOfEndedShell(t *testing.T) {
	t.Parallel()
	const auth, broke = providers.Auth, providers.Class("")
	for _, c := range []struct {
		said  string
		begun bool
		want  providers.Class // of the host's text; empty: lost connection
	}{
		{said: "sudo: a password is required", want: auth},
		{said: "sudo: A terminal is required to read the password; either use the -S option to read from standard input",
			want: auth},
		{said: "sudo: no tty present and no askpass program specified", want: auth},
		{said: "sudo: sorry, you must have a tty to run sudo", want: auth},
		{said: "ops is not in the sudoers file. This incident will be reported.", want: auth},
		{said: "sudo: unable to resolve host r7: Name or service not known Sorry, user ops is not allowed to execute " +
			"'/bin/sh' as root on r7.", want: auth},
		{said: "Sorry, user ops may not run sudo on r7.", want: auth},
		{said: "sudo: PAM account management error: account validation failure, is your account locked?", want: auth},
		{said: "sudo: interactive authentication is required", want: auth},
		{said: "/bin/sh: 1: exec: sudo: not found", want: auth},
		{said: "sudo: unable to resolve host r7: Name or service not known", want: broke},
		{said: "sudo: unable to resolve host r7: Name or service not known", begun: true, want: broke},
		{said: "sudo: a password is required", begun: true, want: broke},
		{said: "", want: broke},
	} {
		s := &shell{said: new(tail), over: true}
		if c.begun {
			s.boot = "b-1"
		}
		if _, err := s.said.Write([]byte(c.said)); err != nil {
			t.Fatal(err)
		}
		err := s.ended(io.EOF)
		got := broke
		if he, ok := errors.AsType[*hostError](err); ok {
			got = he.class
		} else if b := (*broken)(nil); !errors.As(err, &b) {
			t.Errorf("%q, begun %v: got %v, want a known error", c.said, c.begun, err)
		}
		if got != c.want {
			t.Errorf("%q, begun %v: got %v of class %q, want %q", c.said, c.begun, err, got, c.want)
		}
	}
}
