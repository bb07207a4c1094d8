package cli

import (
	"fmt"
	"io"
	"os"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/internal/cli/manifest"
)

// maxFile is the maximum size of a file, in bytes: a million machines.
const maxFile = 512 << 20

// readDocuments reads the documents of a file, or of standard input if the name is "-".
func readDocuments[M proto.Message](a *app, file, list string, empty func() M) ([]M, error) {
	data, err := a.readFile(file)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", list, err)
	}
	docs, err := manifest.Decode(file, data, list, empty)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", list, err)
	}
	return docs, nil
}

// readFile reads a file, or standard input if the name is "-".
func (a *app) readFile(file string) ([]byte, error) {
	in := a.In
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, err
		}
		defer func() { _ = f.Close() }()
		in = f
	}
	data, err := io.ReadAll(io.LimitReader(in, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	if len(data) > maxFile {
		return nil, fmt.Errorf("%s has more than %d MiB: split the file", file, maxFile>>20)
	}
	return data, nil
}

// printDone prints the successful documents and returns the errors of the others. Both slices
// have one element per document.
func printDone[M proto.Message](a *app, o *output, k kind[M], done []M, errs []error, what string) error {
	var ok []M
	var bad []error
	for i, m := range done {
		if errs[i] != nil {
			bad = append(bad, errs[i])
			continue
		}
		ok = append(ok, m)
	}
	var err error
	switch {
	case len(done) == 1 && len(ok) == 1:
		err = printOne(a, o, k, ok[0])
	case len(ok) > 0:
		err = printList(a, o, k, ok)
	}
	if err != nil {
		return err
	}
	return several(bad, len(done), what)
}
