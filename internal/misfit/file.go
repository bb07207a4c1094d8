package misfit

import (
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"strings"
	"syscall"
)

// File returns the error of a file or directory that the user named, with the name that was given:
// temporary names of writers and the names of system calls say nothing. Other errors are returned
// unchanged. The result wraps the error.
func File(name string, err error) error {
	path, ok := errors.AsType[*fs.PathError](err)
	if !ok {
		return err
	}
	why := path.Err.Error()
	switch {
	case strings.Contains(name, "://"):
		why = "it is a URL, and a file is wanted: download it, or give - for standard input"
	case errors.Is(err, fs.ErrNotExist) && path.Path != name && path.Op != "stat":
		why = "there is no such directory"
	case errors.Is(err, fs.ErrNotExist):
		why = "there is no such file"
	case errors.Is(err, fs.ErrPermission):
		why = "this user may not: check the owner and the mode"
	case errors.Is(err, syscall.EISDIR):
		why = "it is a directory"
	case errors.Is(err, syscall.ENOSPC):
		why = "the disk is full"
	}
	return &fileError{text: fmt.Sprintf("%s: %s", name, why), err: err}
}

// system matches the texts of failed system calls on files, as package os has them.
var system = regexp.MustCompile(`\b(?:open|read|stat|lstat|mkdir|chdir|readdirent|fdopendir) (\S+): ` +
	`(no such file or directory|permission denied|is a directory|not a directory)`)

// Files returns a text with sentences in place of the texts of failed system calls on files.
func Files(text string) string {
	return system.ReplaceAllStringFunc(text, func(found string) string {
		m := system.FindStringSubmatch(found)
		why := map[string]string{
			"no such file or directory": "there is no such file", "is a directory": "it is a directory",
			"permission denied": "this user may not: check the owner and the mode",
			"not a directory":   "a part of the path is not a directory",
		}[m[2]]
		return m[1] + ": " + why
	})
}

// fileError is an error of a file in other words.
type fileError struct {
	text string
	err  error
}

func (e *fileError) Error() string { return e.text }
func (e *fileError) Unwrap() error { return e.err }
