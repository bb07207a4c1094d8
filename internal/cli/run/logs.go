package run

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/cli/kinds"
	"github.com/holdfast-metal/holdfast/internal/cli/manifest"
	"github.com/holdfast-metal/holdfast/internal/cli/output"
	"github.com/holdfast-metal/holdfast/internal/cli/render"
	"github.com/holdfast-metal/holdfast/internal/cli/start"
	"github.com/holdfast-metal/holdfast/internal/secrets"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

func runLogs(a *app.App) *cobra.Command {
	var f logFlags
	cmd := &cobra.Command{
		Use: "logs RUN", Aliases: []string{"log"}, Args: app.Exactly("RUN"), ValidArgsFunction: a.Complete(kinds.Run().Names),
		Short: "Print the log of a run",
		Long: `Print the log of a run; with -f follow it until the run ends. If a peer fails, the log continues from
another one without lost or repeated bytes. Terminal sequences are left out and control characters replaced, because
installers and hosts write into it; --raw prints it byte for byte. -o json prints each chunk as JSON on a line, with its
offset, step, attempt and stream, and its data as bytes (base64) and as text. The id of a machine stands for its last run.`,
		Example: `  holdfast run logs run-789
  holdfast run logs run-789 -f --timestamps
  holdfast run logs m-123
  holdfast run logs run-789 --raw > run.log
  holdfast run logs run-789 --offset 4096 -o json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case f.offset < 0:
				return app.Usagef("--offset: %d: give 0 or more", f.offset)
			case f.raw && f.Structured():
				return app.Usagef("--raw: -o %s has the bytes already", f.Format)
			case f.timestamps && f.Structured():
				return app.Usagef("--timestamps: -o %s has the times already", f.Format)
			}
			return a.Online(func(ctx context.Context, c *client.Client, args []string) error {
				return start.OfRun(ctx, a, c, args[0], func(id string) error { return printLogs(ctx, a, c, &f, id) })
			})(cmd, args)
		},
	}
	f.Register(cmd)
	cmd.Flags().BoolVarP(&f.follow, "follow", "f", false, "follow the log until the run ends")
	cmd.Flags().BoolVar(&f.raw, "raw", false, "print the log byte for byte, with its control sequences")
	cmd.Flags().BoolVar(&f.timestamps, "timestamps", false, "print the time before each line")
	cmd.Flags().Int64Var(&f.offset, "offset", 0, "start at this byte of the log")
	return cmd
}

// logFlags are the flags of run logs.
type logFlags struct {
	output.Flags
	follow, timestamps, raw bool
	offset                  int64
}

// printLogs prints the log of a run.
func printLogs(ctx context.Context, a *app.App, c *client.Client, f *logFlags, id string) error {
	ctx, cancel := a.Patience(ctx, 0)
	defer cancel()
	read := c.ReadLogs
	if f.follow {
		read = c.FollowLogs
	}
	next, text := f.offset, &stamped{w: a.Foreign(f.raw), off: !f.timestamps}
	err := read(ctx, id, f.offset, func(chunk *holdfastv1.LogChunk) error {
		if gap := chunk.GetOffset() - next; gap > 0 {
			a.Note("note: %d bytes of the log before here are no longer kept", gap)
		}
		next = chunk.GetOffset() + int64(len(chunk.GetData()))
		if chunk.GetTruncated() {
			a.Note("note: the log of run %s reached its limit here: nothing follows", id)
		}
		if f.Structured() {
			return printChunk(a, &f.Flags, chunk)
		}
		return text.write(app.At(chunk.GetTs()), chunk.GetData())
	})
	if f.follow {
		err = output.Ended(ctx, err)
	}
	return app.Failed(err, "read log of run %s", id)
}

// printChunk prints a part of a log with its data also as text, in which U+FFFD replaces bytes that
// are not UTF-8.
func printChunk(a *app.App, o *output.Flags, chunk *holdfastv1.LogChunk) error {
	raw, err := manifest.JSON(secrets.Redact(chunk))
	if err != nil {
		return err
	}
	text, err := json.Marshal(strings.ToValidUTF8(string(chunk.GetData()), "\ufffd"))
	if err != nil {
		return err
	}
	return output.PrintStreamed(a, o,
		slices.Concat(bytes.TrimSuffix(raw, []byte("}")), []byte(`,"text":`), render.Escaped(text), []byte("}")))
}

// stamped writes text with a time before each line.
type stamped struct {
	w      io.Writer
	off    bool // without times
	inside bool // a line has begun
}

func (s *stamped) write(t time.Time, data []byte) error {
	if s.off {
		_, err := s.w.Write(data)
		return err
	}
	var b bytes.Buffer
	for line := range bytes.Lines(data) {
		if !s.inside {
			b.WriteString(t.UTC().Format("2006-01-02T15:04:05.000Z "))
		}
		b.Write(line)
		s.inside = !bytes.HasSuffix(line, []byte("\n"))
	}
	_, err := s.w.Write(b.Bytes())
	return err
}
