package cli_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/internal/cli"
	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/cli/clitest"
)

func TestUsageErrors(t *testing.T) {
	for _, tt := range []struct {
		args string
		want string // in the only line on standard error
	}{
		{"frob", `unknown command "frob" for "holdfast"`},
		{"machine lst", `unknown command "lst" for "holdfast machine": did you mean list`},
		{"logs run-1", `unknown command "logs" for "holdfast": did you mean holdfast run logs?`},
		{"descibe m-1", `unknown command "descibe" for "holdfast": did you mean holdfast machine get?`},
		{"get runs -o yaml", `unknown command "get" for "holdfast": did you mean holdfast run get?`},
		{"delete machine m-1", `did you mean holdfast machine delete?`},
		{"edit machine m-1", `did you mean holdfast machine edit?`},
		{"delete m-1", `did you mean holdfast machine delete?`},
		{"lsit machines", `did you mean holdfast machine list?`},
		{"logs m-1 -f", `unknown command "logs" for "holdfast": did you mean holdfast run logs?`},
		{"diff -f dir", `unknown command "diff" for "holdfast": did you mean holdfast apply --dry-run?`},
		{"stop run run-1", `did you mean holdfast run cancel?`},
		{"context login", `did you mean holdfast login?`},
		{"machine reboot m-1", `did you mean holdfast run start --type REBOOT?`},
		{"machine remove m-1", `did you mean delete?`},
		{"recover", `unknown command "recover" for "holdfast": did you mean holdfast operator recover?`},
		{"machine list --nonsense", "unknown flag: --nonsense"},
		{"machine list extra", `unexpected argument "extra"`},
		{"machine get", "MACHINE is missing: usage: holdfast machine get MACHINE"},
		{"machine list -o xml", `"xml" is not one of table, wide, json, yaml, name`},
		{"machine list --limit -1", "--limit: -1"},
		{"machine list --timeout 0s", "--timeout: 0s"},
		{"machine register", "give -f FILE, or flags"},
		{"machine register -f x.yaml --rack r7", "give either -f or flags"},
		{"machine register --id m-1 --label env", `--label: "env" is not key=value`},
		{"machine register --id m-1 --phase wild", `--phase: "wild" is not one of FACTORY_READY, READY`},
		{"machine update m-1", "nothing to update"},
		{"machine update", "MACHINE is missing"},
		{"machine update m-1 -f x.yaml", "give either -f, or a machine"},
		{"machine set-phase m-1", "PHASE is missing"},
		{"machine set-phase m-1 REDY", `PHASE: "REDY" is not one of`},
		{"machine watch m-1 --filter x", "give either a machine or --filter"},
		{"machine watch --interval 0s", "--interval: 0s"},
		{"machine delete", "MACHINE is missing"},
		{"plan apply", "-f FILE is missing"},
		{"plan get", "PLAN is missing"},
		{"run start", "MACHINE is missing"},
		{"run start m-1", "give --type (REPAVE, REBOOT, RMA, UPGRADE, NET_RECONFIG) or --plan"},
		{"run start m-1 --type REBOOT --param image", `--param: "image" is not key=value`},
		{"run start m-1 --type REBOOT --wait 10m", "a time to wait is written --wait=10m"},
		{"run start m-1 --type REBOOT --wait=soon", `"soon" is not a time like 10m`},
		{"run watch run-1 --filter x", "give either a run, or --filter"},
		{"run logs run-1 --offset -1", "--offset: -1"},
		{"context set lab", "--addr is missing"},
		{"machine list --limit many",
			`holdfast machine list: --limit: "many" is not a number: see: holdfast machine list --help`},
		{"machine list --limit 010", `--limit: "010": is not written as a decimal number: write 10`},
		{"machine list --limit 0x10", `--limit: "0x10": is not written as a decimal number: write 16`},
		{"machine list -L a,,b", `--label-columns: "a,,b": has an empty element`},
		{"machine register --id m-1 --label env=a --label env=b", "--label: env is given twice: give it once"},
		{"machine register --id m-1 --ssh ssh://root@h:22", `--ssh: begins with "ssh://", as a URL: leave it out`},
		{"machine list --addr ,", `--addr or HOLDFAST_ADDR: "," has no address beside a comma`},
		{"machine list --addr 127.0.0.1:7400,", "one comma between two"},
		{"context set x --addr a,,b", `"a,,b" has no address beside a comma`},
		{"context set x --addr a --token é", "--token or HOLDFAST_TOKEN: contains"},
		{"machine list --token é", "--token or HOLDFAST_TOKEN: contains"},
		{"machine list --limit 99999999999999999999", `--limit: "99999999999999999999" is out of range`},
		{"machine list --timeout soon", `--timeout: "soon" is not a time such as 90s`},
		{"machine list --timeout 99999999h", `--timeout: "99999999h" is longer than the longest time, 2562047h`},
		{"run cancel --selector=", `--selector: "": is empty`},
		{"run cancel --filter=", `--filter: "": is empty`},
		{"wave start --filter=", `--filter: "": is empty`},
		{"apply -f x.yaml -o jsonpath={.nope}", `--output: the result of apply has no field "nope": want one of applied, dry_run`},
		{"apply -f x.yaml -o go-template={{.applied.nope}}", `--output: applied has no field "nope": want one of action,`},
		{"apply -f x.yaml -o custom-columns=ID:.machine_id", `--output: column ID: the result of apply has no field`},
		{"version -o jsonpath={.nope}", `--output: a version has no field "nope"`},
		{"context list -o jsonpath={.items}", `--output: a list of contexts has no field "items"`},
		{"machine list --stale=perhaps", `--stale: "perhaps" is neither true nor false`},
		{"operator autopilot set-config --min-quorum -1", `--min-quorum: "-1" is not a number from 0 up`},
		{"machine list -o jsonpath={.a[*}", `--output: "jsonpath={.a[*}": parse the path`},
		{"machine list -o jsonpath", `--output: "jsonpath" is not one of table`},
		{"machine update m-1 --rack", "flag needs an argument: --rack"},
		{"token create --name x", "--role is missing"},
		{"token create --name x --role king", `--role: "king" is not one of viewer`},
		{"token create --name x --role viewer --ttl 3parsecs", `--ttl: "3parsecs" is not a time of at least a second`},
		{"explain machin", `"machin" is not one of audit`},
		{"explain machine.spec.rak", `MachineSpec has no field "rak"`},
		{"image add x --disk https://images.example/x", "pass --sha256 disk=SUM"},
		{"run start --selector pool=gpu --type REBOOT --max-parallel 0", "--max-parallel: 0: give 1 or more"},
		{"audit verify --after yesterday", `--after: "yesterday" is not SEQUENCE:HASH`},
		{"operator recover", "--data-dir is missing"},
		{"completion powershelll", `unknown command "powershelll" for "holdfast completion": did you mean powershell?`},
	} {
		t.Run(tt.args, func(t *testing.T) {
			f := clitest.Start(t, clitest.Fixture())
			var c clitest.Command
			c.WantCode(t, c.Run(t, f, strings.Fields(tt.args)...), app.ExitUsage)
			clitest.WantIn(t, "stderr", c.Err.String(), "error: ", tt.want)
			if n := strings.Count(c.Err.String(), "\n"); n != 1 {
				t.Errorf("got %d lines in stderr, want 1:\n%s", n, c.Err.String())
			}
			if len(f.Requests) > 0 {
				t.Errorf("got requests %v, want none", f.Requests)
			}
		})
	}
}

func TestNounsShowTheirHelp(t *testing.T) {
	for _, noun := range []string{"machine", "plan", "run", "cluster", "context"} {
		var c clitest.Command
		c.WantCode(t, c.Run(t, nil, noun), app.ExitOK)
		clitest.WantIn(t, "help of "+noun, c.Out.String(), "Commands:", "holdfast "+noun+" COMMAND")
	}
}

func TestExitCodesOfRefusals(t *testing.T) {
	for _, tt := range []struct {
		code codes.Code
		want int
	}{
		{codes.InvalidArgument, app.ExitUsage},
		{codes.NotFound, app.ExitNotFound},
		{codes.AlreadyExists, app.ExitConflict},
		{codes.FailedPrecondition, app.ExitConflict},
		{codes.Aborted, app.ExitConflict},
		{codes.PermissionDenied, app.ExitError},
		{codes.Unauthenticated, app.ExitError},
		{codes.Unimplemented, app.ExitError},
		{codes.Internal, app.ExitError},
	} {
		f := clitest.Fixture()
		f.Refuse = clitest.Always(clitest.Refusal(t, tt.code, `machine "m-1" is in the way`))
		clitest.Start(t, f)
		for _, args := range [][]string{
			{"machine", "get", "m-1"},
			{"machine", "set-phase", "m-1", "MAINTENANCE"},
			{"run", "start", "m-1", "--type", "REBOOT", "--request-id", "r"},
			{"run", "watch", "run-789"},
			{"run", "watch"},
			{"run", "logs", "run-789"},
			{"machine", "delete", "m-1", "--yes"},
		} {
			var c clitest.Command
			c.WantCode(t, c.Run(t, f, args...), tt.want)
			clitest.WantIn(t, "stderr", c.Err.String(), "error: ", `machine "m-1" is in the way`)
			if strings.Contains(c.Err.String(), "rpc error") {
				t.Errorf("%v: got gRPC terms in stderr:\n%s", args, c.Err.String())
			}
			if c.Out.String() != "" {
				t.Errorf("%v: got an error and standard output %q", args, c.Out.String())
			}
		}
	}
}

func TestFieldViolationsAreListed(t *testing.T) {
	f := clitest.Fixture()
	f.Refuse = clitest.Always(clitest.Refusal(t, codes.InvalidArgument, "the machine has 2 problems",
		"spec.mac_addresses[0]",
		"not a MAC address", "labels", "too many"))
	clitest.Start(t, f)
	var c clitest.Command
	c.WantCode(t, c.Run(t, f, "machine", "register", "--id", "m-1", "--mac", "zz"), app.ExitUsage)
	want := "error: register machine m-1: the machine has 2 problems\n  spec.mac_addresses[0]: not a MAC address\n  " +
		"labels: too many\n"
	if got := c.Err.String(); got != want {
		t.Errorf("got stderr %q, want %q", got, want)
	}
}

func TestNotFoundHasRemedy(t *testing.T) {
	for _, tt := range []struct{ reason, args, want string }{
		{"MACHINE_NOT_FOUND", "machine why x", "error: explain machine x: it was not found: see: holdfast machine list\n"},
		{"RUN_NOT_FOUND", "run get x", "error: get run x: it was not found: see: holdfast run list\n"},
		{"PLAN_NOT_FOUND", "plan get x", "error: get plan x: it was not found: see: holdfast plan list\n"},
		{"POOL_NOT_FOUND", "pool get x", "error: get pool x: it was not found: see: holdfast pool list\n"},
		{"TOKEN_NOT_FOUND", "token revoke x --yes", "error: revoke token x: it was not found: see: holdfast token list\n"},
		{"CURSOR_NOT_FOUND", "machine get x", "error: get machine x: it was not found\n"}, // not a noun of the command line
	} {
		f := clitest.Fixture()
		f.Refuse = clitest.Always(clitest.WithReason(t, codes.NotFound, "it was not found", tt.reason))
		clitest.Start(t, f)
		var c clitest.Command
		c.WantCode(t, c.Run(t, f, strings.Fields(tt.args)...), app.ExitNotFound)
		if got := c.Err.String(); got != tt.want {
			t.Errorf("%s: got stderr %q, want %q", tt.args, got, tt.want)
		}
	}
}

func TestPortOfHTTP(t *testing.T) {
	web := httptest.NewServer(http.NotFoundHandler())
	defer web.Close()
	var c clitest.Command
	c.WantCode(t, c.Run(t, nil, "machine", "list", "--timeout", "1s", "--addr", web.Listener.Addr().String()),
		app.ExitUnavailable)
	clitest.WantIn(t, "stderr", c.Err.String(), "that is an HTTP port: give the port of the gRPC API")
}

func TestUnavailable(t *testing.T) {
	var c clitest.Command
	c.Env = map[string]string{"HOLDFAST_ADDR": "127.0.0.1:1"}
	c.WantCode(t, c.Run(t, nil, "machine", "list", "--timeout", "2s"), app.ExitUnavailable)
	clitest.WantIn(t, "stderr", c.Err.String(), "error: list machines: no response", "127.0.0.1:1", "connection refused",
		"HOLDFAST_ADDR")

	c = clitest.Command{Env: c.Env}
	c.WantCode(t, c.Run(t, nil, "run", "watch", "--timeout", "2s"), app.ExitUnavailable)
	clitest.WantIn(t, "stderr", c.Err.String(), "error: watch runs: no response", "127.0.0.1:1", "connection refused")
}

func TestUnknownOutcomeIsReported(t *testing.T) {
	f := clitest.Fixture()
	f.Refuse = clitest.Always(status.Error(codes.Unavailable, "leadership lost"))
	clitest.Start(t, f)
	var c clitest.Command
	c.WantCode(t, c.Run(t, f, "machine", "delete", "m-1", "--yes"), app.ExitUnavailable)
	clitest.WantIn(t, "stderr", c.Err.String(), "delete machine m-1: the outcome is unknown", "leadership lost",
		"read it back")
}

func TestTimeout(t *testing.T) {
	f := clitest.Fixture()
	release := make(chan struct{})
	defer close(release)
	f.Refuse = func(proto.Message) error {
		<-release
		return nil
	}
	clitest.Start(t, f)
	var c clitest.Command
	c.WantCode(t, c.Run(t, f, "machine", "get", "m-123", "--timeout", "100ms"), app.ExitTimeout)
	clitest.WantIn(t, "stderr", c.Err.String(), "--timeout")
}

func TestNoLeader(t *testing.T) {
	f := clitest.Fixture()
	f.Cluster.Leader = ""
	f.Cluster.Problem = "no leader: peer-1 and peer-3 do not answer"
	clitest.Start(t, f)
	var c clitest.Command
	c.WantCode(t, c.Run(t, f, "cluster", "status"), app.ExitUnavailable)
	clitest.WantIn(t, "out", c.Out.String(), "leader none", "peer-3")
	clitest.WantIn(t, "stderr", c.Err.String(),
		"cluster status: no leader: peer-1 and peer-3 do not answer (according to peer-2)\n")
}

func TestWaitForLeader(t *testing.T) {
	f := clitest.Fixture()
	f.Elects.Store(2)
	clitest.Start(t, f)
	var c clitest.Command
	c.WantCode(t, c.Run(t, f, "cluster", "status", "--wait"), app.ExitOK)
	clitest.WantIn(t, "out", c.Out.String(), "leader peer-1")
	if left := f.Elects.Load(); left >= 0 {
		t.Errorf("got an answer, but %d reads without a leader are left", left)
	}

	f.Elects.Store(1 << 30)
	c = clitest.Command{}
	c.WantCode(t, c.Run(t, f, "cluster", "status", "--wait=300ms"), app.ExitUnavailable)
	clitest.WantIn(t, "out", c.Out.String(), "leader none")

	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	c = clitest.Command{Ctx: ctx}
	c.WantCode(t, c.Run(t, f, "cluster", "status", "--wait", "--timeout", "300ms"), app.ExitUnavailable)
}

func TestFlagsAnywhere(t *testing.T) {
	f := clitest.Start(t, clitest.Fixture())
	for _, args := range [][]string{
		{"--stale", "machine", "get", "m-123", "-o", "name"},
		{"machine", "--stale", "get", "-o", "name", "m-123"},
		{"machine", "get", "m-123", "-o", "name", "--stale"},
	} {
		var c clitest.Command
		c.WantCode(t, c.Run(t, f, args...), app.ExitOK)
		if c.Out.String() != "m-123\n" {
			t.Errorf("%v: got output %q, want m-123", args, c.Out.String())
		}
		if got := f.Meta.Get(client.HeaderConsistency); len(got) != 1 || got[0] != "stale" {
			t.Errorf("%v: got consistency %v, want stale", args, got)
		}
	}
}

// Commands of the control plane have their own flags, and none of the clients' flags.
func TestOtherCommands(t *testing.T) {
	var addr string
	other := &cobra.Command{Use: "fake-hardware", Short: "Pretend", RunE: func(*cobra.Command, []string) error {
		return app.Exitf(9, "%s", "listen "+addr)
	}}
	other.Flags().StringVar(&addr, "addr", "", "address to listen at")
	var c clitest.Command
	s := app.Streams{In: strings.NewReader(""), Out: &c.Out, Err: &c.Err, Getenv: func(string) string { return "" },
		Now: clitest.Now}
	if got := cli.Main(t.Context(), s, []string{"fake-hardware", "--addr", "127.0.0.1:9"}, other); got != 9 {
		t.Errorf("got exit code %d, want the command's own, 9", got)
	}
	clitest.WantIn(t, "stderr", c.Err.String(), "error: listen 127.0.0.1:9")
	if got := cli.Main(t.Context(), s, []string{"fake-hardware", "--help"}, other); got != app.ExitOK ||
		strings.Contains(c.Out.String(), "--token") {
		t.Errorf("got exit code %d and help:\n%s\nwant no flags of clients", got, c.Out.String())
	}
}

func TestVersionFlag(t *testing.T) {
	var c clitest.Command
	c.WantCode(t, c.Run(t, nil, "--version"), app.ExitOK)
	clitest.WantIn(t, "stdout", c.Out.String(), "holdfast version ")
}

// TestFlagsOfOtherTools checks the advice for a flag or an argument that another tool would take.
func TestFlagsOfOtherTools(t *testing.T) {
	for _, tt := range []struct{ args, want string }{
		{"secret put s --type bmc --password x", "did you mean --from-file?"},
		{"secret put s --file x", "did you mean --from-file?"},
		{"image add i --file x", "did you mean --disk?"},
		{"machine list --all", ": all are listed without it"},
		{"machine list --query x", "did you mean --filter?"},
		{"machine delete m-1 --force", "did you mean --yes?"},
		{"machine list --outpu x", "did you mean --output?"},
		{"run start m-1 m-2 --type REBOOT", `unexpected argument "m-2": several machines are selected with --selector`},
		{"apply site.yaml", `unexpected argument "site.yaml": a file is given with -f site.yaml`},
		{"apply ./site", "a file is given with -f ./site"},
		{"token create --name x --role operator@gpu", "here it is --role operator --pool gpu"},
	} {
		var c clitest.Command
		c.WantCode(t, c.Run(t, nil, strings.Fields(tt.args)...), app.ExitUsage)
		clitest.WantIn(t, tt.args, c.Err.String(), tt.want)
	}
}

// TestTimeLimitOfAWatch checks that the end of a watch names the flag that ended it.
func TestTimeLimitOfAWatch(t *testing.T) {
	f := clitest.Fixture()
	f.Open = true
	clitest.Start(t, f)
	var c clitest.Command
	c.WantCode(t, c.Run(t, f, "run", "watch", "--timeout", "3s"), app.ExitTimeout)
	clitest.WantIn(t, "run watch", c.Err.String(), "error: watch runs: time is up (--timeout)\n")
}
