// Package apply has the commands that store documents: apply for files of several kinds, and edit
// for one resource in an editor.
//
// It must change only what documents declare.
package apply
