package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/holdfast-metal/holdfast/bench/report"
	"github.com/holdfast-metal/holdfast/bench/rival"
)

const long = `Measure how fast Holdfast is on this machine, compared with etcd, an empty gRPC
handler and Ironic, and check the goals of docs/performance.md.

It starts three peers as processes on loopback, with TLS, tokens and fsync as by
default, and generates the load itself. The two sides of a comparison take turns
in short slices, and a ratio is the median over the rounds, so that other work on
the machine slows down both.`

// Command returns the root command of holdfast-bench with all benchmarks. Version is the build's.
func Command(version string) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "holdfast-bench",
		Short:   "Measure Holdfast on this machine, compared with other systems",
		Long:    long,
		Version: version,
		Example: "  holdfast-bench commit --clients 1,64\n  holdfast-bench keepalive --only http --json\n  " +
			"holdfast-bench goals",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	for _, b := range benchmarks() {
		cmd.AddCommand(b.command(version))
	}
	cmd.AddCommand(goalsCommand(version), rival.TargetCommand(newMachine(0)))
	return cmd
}

func (b *benchmark) command(version string) *cobra.Command {
	o := defaults()
	if b.defaults != nil {
		b.defaults(&o)
	}
	cmd := &cobra.Command{
		Use: b.name, Short: b.short, Long: b.long, Example: b.example, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := b.run(cmd.Context(), o, version, cmd.ErrOrStderr())
			if r != nil { // figures from before the error
				err = errors.Join(err, o.show(cmd.OutOrStdout(), r))
			}
			return failed(err)
		},
	}
	take(cmd, o.define(), append(commonFlags(), b.flags...))
	return cmd
}

// goalsCommand returns the command that runs all benchmarks at the sizes of the goals.
func goalsCommand(version string) *cobra.Command {
	o := defaults()
	o.judge, o.sizes = true, []int{smallFleet, largeFleet}
	cmd := &cobra.Command{
		Use: "goals", Short: "Run all benchmarks and compare them with the goals", Args: cobra.NoArgs,
		Long: "Run all benchmarks at the sizes of the goals, and print goal, measured and verdict. The command fails " +
			"if a goal is missed or a benchmark could not be run.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			all := report.New("goals", version, time.Now())
			var broken []error
			for _, b := range benchmarks() {
				if b.within != "" || b.apart {
					continue
				}
				r, err := b.run(cmd.Context(), o, version, cmd.ErrOrStderr())
				if err != nil { // the table still has the figures of the other benchmarks
					broken = append(broken, err)
					all.Note("%v", err)
				}
				if r == nil {
					continue
				}
				all.Figures, all.Notes, all.Seconds = append(all.Figures, r.Figures...), append(all.Notes,
					r.Notes...), all.Seconds+r.Seconds
			}
			return failed(errors.Join(append(broken, o.show(cmd.OutOrStdout(), all))...))
		},
	}
	names := commonFlags()
	for _, b := range benchmarks() {
		if !b.apart {
			names = append(names, b.flags...)
		}
	}
	take(cmd, o.define(), names)
	for _, fixed := range []string{"only", "goals"} {
		_ = cmd.Flags().MarkHidden(fixed) // fails only if there is no such flag
	}
	return cmd
}

// take adds the flags with these names to a command.
func take(cmd *cobra.Command, from *pflag.FlagSet, names []string) {
	for _, name := range names {
		if cmd.Flags().Lookup(name) == nil {
			cmd.Flags().AddFlag(from.Lookup(name))
		}
	}
}

// run runs the parts of a benchmark, one after the other. With an error, the report has the
// figures from before it.
func (b *benchmark) run(ctx context.Context, o options, version string, notes io.Writer) (r *report.Report, err error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	if b.check != nil {
		if err := b.check(&o); err != nil {
			return nil, err
		}
	}
	parts, err := b.chosen(o.only)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find our own executable: %w", err)
	}
	binary, err := o.findPeer(self)
	if err != nil {
		return nil, err
	}
	dir, remove, err := o.makeDir()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, remove()) }()
	r = report.New(b.name, version, time.Now())
	for _, p := range parts {
		s := &session{options: o, binary: binary, self: self, dir: filepath.Join(dir, p.name), report: r, notes: notes}
		s.say("%s: %s", p.name, p.about)
		if broken := p.run(ctx, s); broken != nil {
			err = errors.Join(err, fmt.Errorf("measure %s %s: %w", b.name, p.name, broken))
		}
		if ctx.Err() != nil {
			break
		}
	}
	r.Seconds = time.Since(r.Began).Seconds()
	return r, err
}

// findPeer returns the path of the program holdfast, which runs the peers: --holdfast, else the one
// in the directory of this program, else the one of $PATH.
func (o *options) findPeer(self string) (string, error) {
	if o.holdfast != "" {
		return o.holdfast, nil
	}
	if path := filepath.Join(filepath.Dir(self), "holdfast"); isFile(path) {
		return path, nil
	}
	path, err := exec.LookPath("holdfast")
	if err != nil {
		return "",
			fmt.Errorf("find the program holdfast beside %s or in $PATH: %w: build it (make build) or pass --holdfast", self,
				err)
	}
	return path, nil
}

// isFile reports whether path is a regular file.
func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// makeDir returns the directory for all data, and what removes it if it is to be removed.
func (o *options) makeDir() (dir string, remove func() error, err error) {
	keep := func() error { return nil }
	if o.dir != "" {
		if err := os.MkdirAll(o.dir, 0o700); err != nil {
			return "", nil, fmt.Errorf("make --dir: %w", err)
		}
		if entries, err := os.ReadDir(o.dir); err != nil || len(entries) > 0 {
			return "", nil, errors.Join(fmt.Errorf("set --dir to an empty or new directory, not %s", o.dir), err)
		}
		return o.dir, keep, nil
	}
	dir, err = os.MkdirTemp("", "holdfast-bench-")
	if err != nil {
		return "", nil, fmt.Errorf("make a directory for the peers: %w", err)
	}
	if o.keepDir {
		return dir, keep, nil
	}
	return dir, func() error { return os.RemoveAll(dir) }, nil
}

// show writes a report in the form that was asked for.
func (o *options) show(w io.Writer, r *report.Report) error {
	write := func() error { return r.WriteTable(w, o.judge) }
	if o.json || o.output == "json" {
		write = func() error { return r.WriteJSON(w) }
	}
	if err := write(); err != nil {
		return err
	}
	if o.judge {
		return r.Err()
	}
	return nil
}

// brokenError is a benchmark that failed, or a goal that was missed.
type brokenError struct{ error }

// ExitCode is 1 whatever the reason, also where a gRPC status would say otherwise.
func (brokenError) ExitCode() int { return 1 }

func (e brokenError) Unwrap() error { return e.error }

func failed(err error) error {
	if err == nil {
		return nil
	}
	return brokenError{err}
}
