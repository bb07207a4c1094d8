package sshexec

import (
	"fmt"
	"regexp"
	"strings"
)

// quote returns s as one word of a POSIX shell. s must not contain a NUL byte.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// line returns a line for the agent: a function and its arguments. The arguments are checked names
// and numbers without line feeds.
func line(function string, words ...any) string {
	var b strings.Builder
	b.WriteString(function)
	for _, w := range words {
		b.WriteByte(' ')
		b.WriteString(quote(fmt.Sprint(w)))
	}
	b.WriteByte('\n')
	return b.String()
}

var (
	tokenOK = regexp.MustCompile(`^[A-Za-z0-9._:-]{1,200}$`)
	userOK  = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9._-]{0,63}$`)
	envOK   = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	pathOK  = regexp.MustCompile(`^/[A-Za-z0-9._/-]*[A-Za-z0-9._-]$`)
)
