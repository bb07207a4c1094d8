// Package manifest reads and writes the documents of the command line: machines and plans as YAML
// or JSON, with the names of the API.
//
// It is strict: an unknown key is an error that names the key and its line, because a typo in a
// plan must not become a default. It owns the text form only and must not connect to a server.
package manifest

import "fmt"

// Error is an error in a document.
type Error struct {
	File string // as the user named it; "-" is standard input
	Line int    // from 1; 0 if it is not known
	Msg  string
}

// Error returns the place and the cause.
func (e *Error) Error() string { return e.place() + ": " + e.Msg }

func (e *Error) place() string {
	name := e.File
	if name == "-" {
		name = "standard input"
	}
	if e.Line == 0 {
		return name
	}
	return fmt.Sprintf("%s:%d", name, e.Line)
}
