package output

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/cli/manifest"
	"github.com/holdfast-metal/holdfast/internal/misfit"
)

// maxFile is the maximum size of a file, in bytes: a million machines.
const maxFile = 512 << 20

// Inputs are the flags -f and -R of a command that reads documents.
type Inputs struct {
	Names     []string
	recursive bool
}

// Register adds the flags. list is the plural of what the files hold.
func (in *Inputs) Register(f *pflag.FlagSet, list string) {
	f.StringArrayVarP(&in.Names, "file", "f", nil,
		"`file` or directory with "+list+`, YAML or JSON ("-": standard input); repeatable`)
	f.BoolVarP(&in.recursive, "recursive", "R", false, "also read the directories in a directory")
}

// Given reports whether the command line has a file.
func (in *Inputs) Given() bool { return len(in.Names) > 0 }

// String returns the names for messages.
func (in *Inputs) String() string { return strings.Join(in.Names, " ") }

// Sources reads all files. Those of a directory are read in the order of their names.
func (in *Inputs) Sources(a *app.App) ([]manifest.Source, error) {
	var out []manifest.Source
	for _, name := range in.Names {
		files := []string{name}
		if info, err := os.Stat(name); name != "-" && err == nil && info.IsDir() {
			if files, err = filesOf(name, in.recursive); err != nil {
				return nil, err
			}
		}
		for _, file := range files {
			data, err := readFile(a, file)
			if err != nil {
				return nil, err
			}
			out = append(out, manifest.Source{File: file, Data: data})
		}
	}
	return out, nil
}

// filesOf returns the YAML and JSON files of a directory.
func filesOf(dir string, recursive bool) ([]string, error) {
	var files []string
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && path != dir && !recursive:
			return fs.SkipDir
		case !e.IsDir() && slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(path)):
			files = append(files, path)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read directory %s: %w", dir, err)
	}
	if len(files) == 0 {
		return nil, app.Usagef("read directory %s: it has no file *.yaml, *.yml or *.json (-R reads its directories too)",
			dir)
	}
	return files, nil
}

// NewMessage returns a new message.
func NewMessage[M proto.Message]() M {
	var none M
	return none.ProtoReflect().New().Interface().(M) //nolint:forcetypeassert // the type is that of none
}

// ReadDocuments reads the documents of one kind.
func ReadDocuments[M proto.Message](a *app.App, in *Inputs, k Kind[M]) ([]M, error) {
	sources, err := in.Sources(a)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", k.List, err)
	}
	docs, err := manifest.Decode(sources, k.List, NewMessage[M])
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", k.List, err)
	}
	return docs, nil
}

// OpenFile opens a file for reading. A FIFO blocks until another process opens it for writing, or
// until the time of --timeout, if it is given.
func OpenFile(a *app.App, name string) (*os.File, error) {
	if info, err := os.Stat(name); err != nil || info.Mode()&fs.ModeNamedPipe == 0 {
		return os.Open(name)
	}
	ctx, cancel := a.Patience(a.Root.Context(), 0)
	defer cancel()
	type result struct {
		f   *os.File
		err error
	}
	opened := make(chan result, 1)
	go func() { // ends with the process, if nothing ever writes
		f, err := os.Open(name)
		opened <- result{f, err}
	}()
	late := time.NewTimer(time.Second)
	defer late.Stop()
	for {
		select {
		case r := <-opened:
			return r.f, r.err
		case <-late.C:
			a.Note("%s is a FIFO: waiting for another process to write into it", name)
		case <-ctx.Done():
			text := fmt.Sprintf("%s is a FIFO, and no other process writes into it", name)
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				text += ": give it more time than --timeout " + a.Globals.Timeout.String()
				return nil, app.Exitf(app.ExitTimeout, "%s", text)
			}
			return nil, fmt.Errorf("%s: %w", text, ctx.Err())
		}
	}
}

// readFile reads a file, or standard input if the name is "-".
func readFile(a *app.App, file string) ([]byte, error) {
	in := a.In
	if file != "-" {
		f, err := OpenFile(a, file)
		if err != nil {
			return nil, misfit.File(file, err)
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

// StoreEach calls store for each document, and prints the results.
func StoreEach[D any, M proto.Message](a *app.App, o *Flags, k Kind[M], docs []D, what string,
	store func(doc D) (M, error)) error {
	done, errs := make([]M, len(docs)), make([]error, len(docs))
	for i, doc := range docs {
		done[i], errs[i] = store(doc)
	}
	return PrintDone(a, o, k, done, errs, what)
}

// PrintDone prints the successful documents and returns the errors of the others. Both slices
// have one element per document.
func PrintDone[M proto.Message](a *app.App, o *Flags, k Kind[M], done []M, errs []error, what string) error {
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
		err = PrintOne(a, o, k, ok[0])
	case len(ok) > 0:
		err = PrintList(a, o, k, ok)
	}
	if err != nil {
		return err
	}
	return app.Several(bad, len(done), what)
}

// Parallel is the number of documents that are stored at once: peers commit concurrent writes
// together.
const Parallel = 16
