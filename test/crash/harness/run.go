package harness

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.etcd.io/bbolt"
)

// startTime bounds a start that must fail.
const startTime = 30 * time.Second

// Run runs the binary until it ends, and returns its exit code and its stderr. A process
// that does not end is killed and fails the test.
func (b *Bench) Run(t testing.TB, args ...string) (code int, stderr string) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), startTime)
	defer stop()
	cmd := exec.CommandContext(ctx, b.Binary, args...)
	var out bytes.Buffer
	cmd.Stderr = &out
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	// The kernel kills the child when the thread that started it ends.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "HOLDFAST_") {
			cmd.Env = append(cmd.Env, kv)
		}
	}
	err := cmd.Run()
	if ctx.Err() != nil {
		t.Errorf("holdfast %s has run for %s, but should have refused to start\n%s", strings.Join(args, " "),
			startTime, out.String())
		return -1, out.String()
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String()
}

// Hash returns the mode and the SHA-256 of every file in a directory, by path, or nothing
// if it does not exist. For a bolt file it hashes keys and values, because opening one for
// writing changes its first pages, but not the marks, which each start adds to.
func Hash(t testing.TB, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		sum := sha256.New()
		if filepath.Ext(path) == ".db" {
			err = hashBolt(sum, path)
		} else {
			var b []byte
			b, err = os.ReadFile(path)
			sum.Write(b)
		}
		all[rel] = info.Mode().String() + " " + hex.EncodeToString(sum.Sum(nil))
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return all
}

// marks is the key of the marks of a data directory in raft.db.
const marks = "HoldfastMarks"

func hashBolt(w io.Writer, path string) error {
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true, Timeout: time.Second})
	if err != nil {
		return err
	}
	err = db.View(func(tx *bbolt.Tx) error {
		return tx.ForEach(func(name []byte, b *bbolt.Bucket) error {
			if _, err := fmt.Fprintf(w, "%q\n", name); err != nil {
				return err
			}
			return b.ForEach(func(k, v []byte) error {
				if string(k) == marks {
					return nil
				}
				_, err := fmt.Fprintf(w, "%q %q\n", k, v)
				return err
			})
		})
	})
	return errors.Join(err, db.Close())
}
