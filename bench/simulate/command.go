package simulate

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/internal/cli/render"
)

// updateEvery is the interval of progress updates.
const updateEvery = 200 * time.Millisecond

const long = `Simulate a fleet from one process, to load a cluster or to test it for days. Use
it with test clusters: the pools, machines, services and tokens of the fleet, named
after --prefix, stay behind.

Agents register and send keepalives, services register and ping, pool managers
register and send heartbeats, all over HTTP like real ones: at the interval that
the cluster sets, with another peer after a failure, and with a new registration if
the cluster has lost theirs. Machines are declared and get runs at a rate. With
--bmc-listen this process also has their BMCs, for peers with this configuration:

  providers: {fake: {kind: fake, endpoint: "http://127.0.0.1:7450"}}

It connects as an admin to the peers of the global flags (--addr, --token, --ca,
--cert, --key), and asks them for their HTTP addresses (or set --servers). It ends
with Ctrl-C or after --duration, and prints its observations. Services and pool
managers deregister at the end. Agents cannot: their leases expire (300 s), and
their machines become EXPIRED. If it is killed, nothing deregisters.`

// Command returns the command "simulate". Connect returns the client configuration of the global
// flags.
func Command(connect func(*cobra.Command) (client.Config, error)) *cobra.Command {
	o := Options{Rate: 500, Ping: 10 * time.Second, Connections: 4096, Prefix: "sim", Provider: "fake",
		Every: 10 * time.Second}
	output := "text"
	cmd := &cobra.Command{
		Use:   "simulate",
		Short: "Simulate a fleet of agents, services, pools and machines",
		Long:  long,
		Args:  cobra.NoArgs,
		Example: "  holdfast-bench simulate --agents 1000 --services 50 --pools 4 --duration 5m\n  holdfast-bench " +
			"simulate --machines 200 --runs 5 --bmc-listen 127.0.0.1:7450 -o json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if output != "text" && output != "json" {
				return fmt.Errorf("set --output to text or json, not %q", output)
			}
			admin, err := connect(cmd)
			if err != nil {
				return err
			}
			r, err := Run(cmd.Context(), o, admin, cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			if output == "json" {
				enc := json.NewEncoder(cmd.OutOrStdout())
				enc.SetIndent("", "  ")
				return enc.Encode(r)
			}
			return r.write(cmd.OutOrStdout())
		},
	}
	fs := cmd.Flags()
	fs.IntVar(&o.Agents, "agents", 0, "number of `agents`")
	fs.IntVar(&o.Services, "services", 0, "`services` that ping")
	fs.IntVar(&o.Pools, "pools", 0, "number of `pools` with a manager; the agents are distributed among them")
	fs.IntVar(&o.Machines, "machines", 0, "number of registered `machines` with fake BMCs")
	fs.DurationVar(&o.Duration, "duration", 0, "`time` to run; 0: until Ctrl-C")
	fs.Float64Var(&o.Rate, "rate", o.Rate, "registrations `per second`")
	fs.Float64Var(&o.Runs, "runs", 0, "started runs `per second`, on each machine in turn")
	fs.DurationVar(&o.Ping, "ping", o.Ping, "`time` between two pings of a service")
	fs.IntVar(&o.Connections, "connections", o.Connections,
		"maximum number of `connections` to all peers: a keepalive takes up to 1.25 s")
	fs.StringSliceVar(&o.Servers, "servers", nil, "base `URLs` of the peers' HTTP (default: those of the cluster status)")
	fs.StringVar(&o.Prefix, "prefix", o.Prefix, "`begin` of all names")
	fs.StringVar(&o.Provider, "provider", o.Provider, "`provider` of the machines")
	fs.StringVar(&o.Hardware, "bmc-listen", "", "`address` on which to serve the machines' BMCs")
	fs.DurationVar(&o.Every, "every", o.Every, "`time` between two lines of progress; 0: none")
	fs.StringVarP(&output, "output", "o", output, "`form` of the summary: text or json")
	return cmd
}

// say prints a message with the time.
func (f *fleet) say(format string, args ...any) {
	_, _ = fmt.Fprintf(f.notes, time.Now().Format("15:04:05 ")+format+"\n", args...) // progress is optional
}

// tell prints the progress until ctx ends.
func (f *fleet) tell(ctx context.Context) error {
	tick := time.NewTicker(updateEvery)
	defer tick.Stop()
	for said := time.Now(); ; {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if f.progress != nil {
			f.progress(f)
		}
		if f.Every <= 0 || time.Since(said) < f.Every {
			continue
		}
		said = time.Now()
		var parts []string
		for _, k := range f.kinds {
			if c := k.count(); c.Members > 0 {
				failed := int64(0)
				for _, n := range c.Failures {
					failed += n
				}
				parts = append(parts, fmt.Sprintf("%s %d of %d, %d heartbeats (p99 %s), %d failed, %d forgotten", k.name,
					c.Known, c.Members, c.Heartbeats.Count, seconds(c.Heartbeats.P99), failed, c.Forgotten))
			}
		}
		if f.Machines > 0 {
			parts = append(parts, fmt.Sprintf("machines %d of %d, %d runs started, %d ended", f.declared.Load(),
				f.Machines, f.runs.started.Count(), f.runs.ended.Count()))
		}
		f.say("%s", strings.Join(parts, "; "))
	}
}

func seconds(s float64) string {
	return time.Duration(s * float64(time.Second)).Round(100 * time.Microsecond).String()
}

// write writes the report for people.
func (r *Report) write(w io.Writer) error {
	t := render.NewTable("WHO", "WHAT", "COUNT", "P50", "P99", "MAX")
	row := func(who, what string, l Latency) {
		t.Row(plain(who), plain(what), plain(fmt.Sprint(l.Count)), plain(seconds(l.P50)), plain(seconds(l.P99)),
			plain(seconds(l.Most)))
	}
	count := func(who, what string, n int64) {
		t.Row(plain(who), plain(what), plain(fmt.Sprint(n)), plain(""), plain(""), plain(""))
	}
	for _, name := range slices.Sorted(maps.Keys(r.Kinds)) {
		k := r.Kinds[name]
		row(name, fmt.Sprintf("registered, of %d", k.Members), k.Registered)
		row(name, "heartbeats", k.Heartbeats)
		t.Row(plain(name), plain("delayed by the simulator"), plain(""), plain(""), plain(seconds(k.LateSeconds)),
			plain(""))
		for _, why := range slices.Sorted(maps.Keys(k.Failures)) {
			count(name, "tries that failed: "+why, k.Failures[why])
		}
		count(name, "forgotten, and registered again", k.Forgotten)
		if n, ok := r.Lost[name]; ok {
			count(name, "gone at the end", n)
		}
		if n, ok := r.Left[name]; ok {
			count(name, "signed off", n)
		}
	}
	if r.Machines > 0 {
		count("machines", "declared", r.Machines)
	}
	if r.Runs != nil {
		row("runs", "started", r.Runs.Started)
		row("runs", "ended, from their creation", r.Runs.Ended)
		for _, phase := range slices.Sorted(maps.Keys(r.Runs.Phases)) {
			count("runs", strings.ToLower(phase), r.Runs.Phases[phase])
		}
		count("runs", "not started, the machine was busy", r.Runs.Busy)
		for _, why := range slices.Sorted(maps.Keys(r.Runs.Failures)) {
			count("runs", "calls that failed: "+why, r.Runs.Failures[why])
		}
	}
	if _, err := fmt.Fprintf(w, "%d peers, %.0f s\n\n%s", r.Peers, r.Seconds, t.Format(false, true)); err != nil {
		return err
	}
	for _, n := range r.Notes {
		if _, err := fmt.Fprintf(w, "\nNote: %s.\n", n); err != nil {
			return err
		}
	}
	return nil
}

func plain(s string) render.Text { return render.T(s, render.Plain) }
