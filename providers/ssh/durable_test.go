package sshexec_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-metal/holdfast/providers"
	sshexec "github.com/holdfast-metal/holdfast/providers/ssh"
)

// host is the host of the command tests, with or without systemd.
type host struct {
	machine providers.Machine
	addr    string
	state   string                               // the provider's directory on the host
	dir     string                               // for the tests' own files, on the host
	seen    func(path string) string             // path on this machine
	make    func(t *testing.T) *sshexec.Provider // returns a provider like that of another leader
	long    int                                  // seconds of a long command
	user    string
}

func withoutSystemd(t *testing.T) host {
	s := startSSHD(t)
	return host{
		machine: s.machine(), addr: s.addr, state: s.state, dir: hostDir(t), seen: func(p string) string { return p },
		long: 3, user: "nobody",
		make: func(t *testing.T) *sshexec.Provider { return s.provider(t) },
	}
}

func TestCommandsWithoutSystemd(t *testing.T) {
	h := withoutSystemd(t)
	h.commands(t)
}

func (h host) commands(t *testing.T) {
	for name, test := range map[string]func(*testing.T, host){
		"ManyStartOnce": manyStartOnce, "AnotherLeaderGoesOn": anotherLeaderContinues,
		"KillTakesTheChildren": killTakesTheChildren, "KilledBeforeItStarted": killedBeforeItStarted,
		"SupervisorKilled": supervisorKilled, "RebootedMeanwhile": rebootedMeanwhile, "LateAtTheHost": lateAtTheHost,
		"SlowToStage": slowToStage, "LostWhileStarting": lostWhileStarting,
		"OutputIsBinary": outputIsBinary, "OutputIsCapped": outputIsCapped, "RunsAsUser": runsAsUser,
		"ScriptKeepsItsStdin": scriptKeepsItsStdin,
		"Environment":         environment, "SignalsAreTold": signalsAreTold,
		"BackgroundDoesNotHoldItUp": backgroundDoesNotHoldItUp, "Refused": refusedCommands,
		"OldStateIsRemoved": oldStateIsRemoved,
	} {
		t.Run(name, func(t *testing.T) { test(t, h) })
	}
}

func newToken(t *testing.T) string {
	return "r-" + rand.Text()[:8] + "-" + filepath.Base(t.Name()) + "-1"
}

func (h host) start(t *testing.T, p *sshexec.Provider, token string, c providers.Command) {
	t.Helper()
	if err := p.StartCommand(t.Context(), providers.Op{}, h.machine, token, c); err != nil {
		t.Fatal(err)
	}
}

// follow reads a command's output from an offset to its end, like the executor.
func (h host) follow(
	t *testing.T, p *sshexec.Provider, token string, next int64,
) (map[string]string, providers.CommandStatus) {
	t.Helper()
	out := map[string]string{}
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); {
		s, err := p.CommandStatus(t.Context(), h.machine, token, next)
		if err != nil {
			if c := providers.ClassOf(err); c != providers.Transient && c != providers.Timeout {
				t.Fatal(err)
			}
			continue
		}
		for _, o := range s.Output {
			out[o.Stream] += string(o.Data)
			next += int64(len(o.Data))
		}
		if next != s.Next {
			t.Fatalf("got next %d after %d bytes", s.Next, next)
		}
		if (s.State == providers.WorkDone || s.State == providers.WorkFailed) && len(s.Output) == 0 {
			return out, s
		}
		time.Sleep(20 * time.Millisecond) // sleep: between two polls, with a deadline
	}
	t.Fatalf("wait for the end of command %s: timed out", token)
	return nil, providers.CommandStatus{}
}

func (h host) run(t *testing.T, p *sshexec.Provider, c providers.Command) (map[string]string, providers.CommandStatus) {
	t.Helper()
	token := newToken(t)
	h.start(t, p, token, c)
	return h.follow(t, p, token, 0)
}

func (h host) file(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(h.seen(name))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return string(b)
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !ok(); {
		if time.Now().After(deadline) {
			t.Fatalf("wait for %s: not within 20s", what)
		}
		time.Sleep(20 * time.Millisecond) // sleep: between two polls, with a deadline
	}
}

// slowToStage lets the time of an effect pass during its preparation. Then the leadership is
// confirmed once more.
func slowToStage(t *testing.T, h host) {
	for _, leads := range []bool{true, false} {
		t.Run(fmt.Sprintf("leads-%v", leads), func(t *testing.T) {
			token, marker := newToken(t), filepath.Join(h.dir, rand.Text())
			over, asked := time.Now().Add(3*time.Second), 0
			ctx := providers.WithConfirm(providers.WithNotAfter(t.Context(), over), func(context.Context) (time.Time, error) {
				asked++
				<-time.After(time.Until(over))
				if !leads {
					return time.Time{}, errors.New("replaced")
				}
				return time.Now().Add(10 * time.Second), nil
			})
			p := h.make(t)
			err := p.StartCommand(ctx, providers.Op{}, h.machine, token, providers.Command{Script: "echo started >>" + marker})
			if asked != 1 {
				t.Errorf("got %d confirmations, want 1", asked)
			}
			if leads {
				if err != nil {
					t.Fatal(err)
				}
				h.follow(t, p, token, 0)
			} else if providers.ClassOf(err) != providers.Late {
				t.Errorf("got %v, want class late", err)
			}
			if got, want := h.file(t, marker), map[bool]string{true: "started\n", false: ""}[leads]; got != want {
				t.Errorf("output of the command: got %q, want %q", got, want)
			}
		})
	}
}

// manyStartOnce lets five leaders start the same attempt at the same time, three times each.
func manyStartOnce(t *testing.T, h host) {
	token, marker := newToken(t), filepath.Join(h.dir, rand.Text())
	var wg sync.WaitGroup
	for range 5 {
		p := h.make(t)
		for range 3 {
			wg.Go(func() {
				if err := p.StartCommand(t.Context(), providers.Op{}, h.machine, token,
					providers.Command{Script: "echo started >>" + marker + "; sleep 0.5; echo done"}); err != nil {
					t.Error(err)
				}
			})
		}
	}
	wg.Wait()
	out, s := h.follow(t, h.make(t), token, 0)
	if out["stdout"] != "done\n" || s.State != providers.WorkDone || h.file(t, marker) != "started\n" {
		t.Fatalf("got %q, %+v and starts %q, want one", out, s, h.file(t, marker))
	}
	left, _ := filepath.Glob(h.seen(h.state) + "/d-*/claim")
	claims := 0
	for _, l := range left {
		if c, _ := os.ReadFile(l); strings.Contains(h.file(t, h.state+"/t-"+token), strings.Fields(string(c))[0]) {
			claims++
		}
	}
	if claims != 1 {
		t.Errorf("got %d directories of the attempt, want 1", claims)
	}
}

// anotherLeaderContinues cuts the connection repeatedly, and then uses another provider: one
// start, each line once.
func anotherLeaderContinues(t *testing.T, h host) {
	line := newProxy(t, h.addr)
	token, marker := newToken(t), filepath.Join(h.dir, rand.Text())
	over := h
	over.machine = machineAt(h.machine.GetMachineId(), line.addr)
	n := h.long * 5
	first := h.make(t)
	over.start(t, first, token,
		providers.Command{Script: fmt.Sprintf("echo started >>%s; i=0; while [ $i -lt %d ]; do i=$((i+1)); echo line "+
			"$i; echo err $i >&2; sleep 0.2; done; exit 7", marker, n)})
	var got, want strings.Builder
	var next int64
	for end := time.Now().Add(time.Duration(h.long) * time.Second / 2); time.Now().Before(end); {
		s, err := first.CommandStatus(t.Context(), over.machine, token, next)
		line.cut()
		if err != nil {
			continue
		}
		for _, o := range s.Output {
			if o.Stream == "stdout" {
				got.Write(o.Data)
			}
		}
		next = s.Next
		time.Sleep(100 * time.Millisecond) // sleep: the command prints meanwhile
	}
	first.Close() // the leader ends
	second := h.make(t)
	h.start(t, second, token, providers.Command{Script: "echo started >>" + marker}) // it does not know the first start
	out, s := h.follow(t, second, token, next)
	got.WriteString(out["stdout"])
	for i := range n {
		fmt.Fprintf(&want, "line %d\n", i+1)
	}
	if s.State != providers.WorkDone || s.ExitCode != 7 || got.String() != want.String() ||
		h.file(t, marker) != "started\n" {
		t.Fatalf("got %+v and\n%s\nand starts %q, want exit 7, %d lines and one start", s, got.String(), h.file(t, marker), n)
	}
	if all, _ := h.follow(t, second, token, 0); strings.Count(all["stderr"], "\n") != n {
		t.Errorf("got %d lines on stderr, want %d", strings.Count(all["stderr"], "\n"), n)
	}
}

// killTakesTheChildren also kills children that ignore SIGTERM or left the process group.
func killTakesTheChildren(t *testing.T, h host) {
	p, token, marker := h.make(t), newToken(t), filepath.Join(h.dir, rand.Text())
	h.start(t, p, token, providers.Command{Script: fmt.Sprintf(
		`(trap '' TERM; while :; do date +%%s%%N >%[1]s.deaf; sleep 0.05; done) & setsid sh -c 'while :; do date +%%s%%N >%[1]s.away; sleep 0.05; done' & trap 'echo heard; exit 0' TERM; echo up; while :; do sleep 0.1; done`, marker)})
	eventually(t, "all children", func() bool {
		return h.file(t, marker+".deaf") != "" &&
			h.file(t, marker+".away") != ""
	})
	if err := p.KillCommand(t.Context(), providers.Op{}, h.machine, token); err != nil {
		t.Fatal(err)
	}
	out, s := h.follow(t, p, token, 0)
	if s.State != providers.WorkFailed || s.Reason == "" || out["stdout"] != "up\nheard\n" {
		t.Errorf("got %+v and %q, want a failure with a reason, and a received TERM", s, out)
	}
	deaf, away := h.file(t, marker+".deaf"), h.file(t, marker+".away")
	time.Sleep(300 * time.Millisecond) // sleep: a remaining child would write
	if h.file(t, marker+".deaf") != deaf || h.file(t, marker+".away") != away {
		t.Error("got a running child after KillCommand returned")
	}
}

func killedBeforeItStarted(t *testing.T, h host) {
	p, token := h.make(t), newToken(t)
	if err := p.KillCommand(t.Context(), providers.Op{}, h.machine, token); err != nil {
		t.Fatal(err)
	}
	h.start(t, p, token, providers.Command{Script: "echo late"})
	if out, s := h.follow(t, p, token, 0); s.State != providers.WorkFailed || out["stdout"] != "" ||
		!strings.Contains(s.Reason, "before it was started") {
		t.Fatalf("got %+v and %q, want a command that never ran", s, out)
	}
}

// claimOf returns the fields of a command's claim: directory, boot id, mode, supervisor's pid and
// so on.
func (h host) claimOf(t *testing.T, token string) []string {
	t.Helper()
	c := strings.Fields(h.file(t, h.state+"/t-"+token))
	if len(c) != 6 {
		t.Fatalf("claim of %s: got %q", token, c)
	}
	return c
}

// supervisorKilled kills the supervisor, so that the outcome is unknown. The command counts as
// failed, and is not started again.
func supervisorKilled(t *testing.T, h host) {
	p, token, marker := h.make(t), newToken(t), filepath.Join(h.dir, rand.Text())
	over := marker + ".over" // it runs until then, even on a slow host
	c := providers.Command{Script: "echo started >>" + marker + "; for i in $(seq 1200); do [ -e " + over +
		" ] && break; sleep 0.05; done"}
	h.start(t, p, token, c)
	eventually(t, "the start", func() bool { return h.file(t, marker) != "" })
	if _, s := h.run(t, p, providers.Command{Path: "kill",
		Args: []string{"-9", h.claimOf(t, token)[3]}}); s.ExitCode != 0 {
		t.Fatalf("kill: %+v", s)
	}
	if err := os.WriteFile(h.seen(over), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, s := h.follow(t, p, token, 0)
	if s.State != providers.WorkFailed || s.Reason == "" {
		t.Errorf("got %+v, want a failure with a reason", s)
	}
	h.start(t, p, token, c)
	if got := h.file(t, marker); got != "started\n" {
		t.Errorf("got starts %q, want one", got)
	}
}

// rebootedMeanwhile uses a claim of another boot.
func rebootedMeanwhile(t *testing.T, h host) {
	p, token, marker := h.make(t), newToken(t), filepath.Join(h.dir, rand.Text())
	c := providers.Command{Script: "echo started >>" + marker + "; sleep 600"}
	h.start(t, p, token, c)
	eventually(t, "the start", func() bool { return h.file(t, marker) != "" })
	claim := h.claimOf(t, token)
	now := claim[1]
	claim[1] = "00000000-0000-0000-0000-000000000000"
	path := h.seen(h.state + "/t-" + token)
	if err := os.WriteFile(path, []byte(strings.Join(claim, " ")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, s := h.follow(t, p, token, 0)
	if s.State != providers.WorkFailed || !strings.Contains(s.Reason, "rebooted") {
		t.Errorf("got %+v, want a failure because of a reboot", s)
	}
	h.start(t, p, token, c)
	if got := h.file(t, marker); got != "started\n" {
		t.Errorf("got starts %q, want one", got)
	}
	claim[1] = now // so that it can be killed
	if err := os.WriteFile(path, []byte(strings.Join(claim, " ")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := p.KillCommand(t.Context(), providers.Op{}, h.machine, token); err != nil {
		t.Error(err)
	}
}

// lateAtTheHost delays the bytes of a timely start in transit, so that the host refuses them.
func lateAtTheHost(t *testing.T, h host) {
	line := newProxy(t, h.addr)
	m := machineAt(h.machine.GetMachineId(), line.addr)
	p, token, marker := h.make(t), newToken(t), filepath.Join(h.dir, rand.Text())
	if _, err := p.CommandStatus(t.Context(), m, token, 0); err != nil { // connects
		t.Fatal(err)
	}
	for try := range 20 {
		token := token + strconv.Itoa(try)
		// Somewhere between staging and starting.
		timer := time.AfterFunc(time.Duration(try)*2*time.Millisecond, line.freeze)
		thaw := time.AfterFunc(700*time.Millisecond, line.thaw)
		err := p.StartCommand(providers.WithNotAfter(t.Context(), time.Now().Add(500*time.Millisecond)), providers.Op{}, m,
			token, providers.Command{Script: "echo ran >>" + marker})
		timer.Stop()
		if !thaw.Stop() {
			line.thaw()
		}
		line.thaw()
		s, serr := p.CommandStatus(t.Context(), m, token, 0)
		if serr != nil {
			t.Fatal(serr)
		}
		switch {
		case err == nil && s.State == providers.WorkNone:
			t.Fatalf("try %d: got no error and no start", try)
		case err != nil && (providers.ClassOf(err) != providers.Late || s.State != providers.WorkNone):
			t.Fatalf("try %d: got %v and %+v, want late without an effect", try, err, s)
		case err != nil:
			return // it was late without an effect, and the connection still works
		}
	}
	t.Fatal("no start was delayed long enough")
}

// lostWhileStarting cuts the connection between the first byte and the answer. The result must
// always be right.
func lostWhileStarting(t *testing.T, h host) {
	line := newProxy(t, h.addr)
	m := machineAt(h.machine.GetMachineId(), line.addr)
	p := h.make(t)
	started, not := 0, 0
	for try := range 25 {
		token, marker := newToken(t), filepath.Join(h.dir, rand.Text())
		if _, err := p.CommandStatus(t.Context(), m, token, 0); err != nil {
			t.Fatal(err)
		}
		timer := time.AfterFunc(time.Duration(try)*4*time.Millisecond, line.cut)
		err := p.StartCommand(providers.WithNotAfter(t.Context(), time.Now().Add(300*time.Millisecond)), providers.Op{}, m,
			token, providers.Command{Script: "echo started >>" + marker})
		timer.Stop()
		s, serr := p.CommandStatus(t.Context(), m, token, 0)
		if serr != nil {
			s, serr = p.CommandStatus(t.Context(), m, token, 0)
		}
		if serr != nil {
			t.Fatal(serr)
		}
		switch {
		case err == nil && s.State == providers.WorkNone, err != nil && s.State != providers.WorkNone:
			t.Fatalf("try %d: got %v, but status %+v on the host", try, err, s)
		case err == nil:
			started++
			eventually(t, "the start", func() bool { return h.file(t, marker) == "started\n" })
		default:
			not++
		}
	}
	t.Logf("%d commands started, %d did not", started, not)
}

func outputIsBinary(t *testing.T, h host) {
	p := h.make(t)
	out, s := h.run(t, p, providers.Command{Script: `printf 'a\000b\377\n\r\nend 1\nok'; printf '\000\001\002' >&2`})
	if out["stdout"] != "a\x00b\xff\n\r\nend 1\nok" || out["stderr"] != "\x00\x01\x02" || s.State != providers.WorkDone {
		t.Fatalf("got %q and %+v", out, s)
	}
	random := make([]byte, 300<<10)
	rand.Read(random)
	name := filepath.Join(h.dir, rand.Text())
	if err := os.WriteFile(h.seen(name), random, 0o644); err != nil {
		t.Fatal(err)
	}
	if out, _ := h.run(t, p, providers.Command{Path: "cat", Args: []string{name}}); !bytes.Equal([]byte(out["stdout"]),
		random) {
		t.Fatalf("got %d bytes that are not the %d printed", len(out["stdout"]), len(random))
	}
}

func outputIsCapped(t *testing.T, h host) {
	p := h.make(t)
	out, s := h.run(t, p, providers.Command{Script: "head -c 3000000 /dev/zero; echo not lost >&2; exit 3"})
	const most = 1<<20 + 64<<10
	if len(out["stdout"]) != most || out["stderr"] != "not lost\n" || s.ExitCode != 3 || s.State != providers.WorkDone {
		t.Fatalf("got %d bytes, %q and %+v, want %d and exit 3", len(out["stdout"]), out["stderr"], s, most)
	}
}

func runsAsUser(t *testing.T, h host) {
	p := h.make(t)
	for _, c := range []providers.Command{{Path: "id", Args: []string{"-un"}, User: h.user},
		{Script: "id -un", User: h.user}, {Script: "#!/bin/sh\nid -un", User: h.user}} {
		if out, s := h.run(t, p, c); out["stdout"] != h.user+"\n" || s.ExitCode != 0 {
			t.Errorf("%+v: got %q and %+v", c, out, s)
		}
	}
	err := p.StartCommand(t.Context(), providers.Op{}, h.machine, newToken(t),
		providers.Command{Script: "true", User: "nosuchuser"})
	if providers.ClassOf(err) != providers.Unsupported || !strings.Contains(err.Error(), "no user nosuchuser") {
		t.Errorf("got %v, want an unknown user", err)
	}
	// The agent has ended after that, and the connection still works.
	if _, s := h.run(t, p, providers.Command{Script: "true"}); s.State != providers.WorkDone {
		t.Errorf("got %+v", s)
	}
}

func scriptKeepsItsStdin(t *testing.T, h host) {
	p := h.make(t)
	if out, _ := h.run(t, p, providers.Command{Script: "cat; read x; echo \"after $x\"\n"}); out["stdout"] != "after \n" {
		t.Errorf("got %q, but a script must not read itself", out)
	}
	if out, _ := h.run(t, p,
		providers.Command{Script: "#!/usr/bin/awk -f\nBEGIN { print \"awk\" }"}); out["stdout"] != "awk\n" {
		t.Errorf("script with an interpreter: got %q", out)
	}
	long := "# " + strings.Repeat("x", 500<<10) + "\necho end\n"
	if out, _ := h.run(t, p, providers.Command{Script: long}); out["stdout"] != "end\n" {
		t.Errorf("long script: got %q", out)
	}
}

func environment(t *testing.T, h host) {
	p := h.make(t)
	out, _ := h.run(t, p, providers.Command{Path: "env", Env: map[string]string{"A": "x\ny'z\"$HOME`id`\\",
		"PATH": "/usr/bin:/bin", "IFS": "a", "UID": "7"}})
	for _, want := range []string{"A=x\ny'z\"$HOME`id`\\\n", "PATH=/usr/bin:/bin\n", "HOME=/root\n", "USER=root\n",
		"IFS=a\n", "UID=7\n"} {
		if !strings.Contains("\n"+out["stdout"], "\n"+want) {
			t.Errorf("environment: got no %q: %s", want, out["stdout"])
		}
	}
	if out, _ := h.run(t, p, providers.Command{Script: "umask"}); out["stdout"] != "0022\n" {
		t.Errorf("umask: got %q, want that of a login, so that services can read new files", out["stdout"])
	}
	for _, not := range []string{"SSH_CONNECTION", "INVOCATION_ID", "hf_"} {
		if strings.Contains(out["stdout"], not) {
			t.Errorf("environment: got %s: %s", not, out["stdout"])
		}
	}
}

func signalsAreTold(t *testing.T, h host) {
	if _, s := h.run(t, h.make(t), providers.Command{Script: "kill -SEGV $$"}); s.State != providers.WorkDone ||
		s.ExitCode != 139 {
		t.Errorf("got %+v, want done with 139", s)
	}
	// INT and QUIT are not ignored, as they would be in a shell's background.
	if _, s := h.run(t, h.make(t), providers.Command{Script: "kill -INT $$; sleep 0.1; exit 5"}); s.ExitCode != 130 {
		t.Errorf("got %+v, want 130: INT was ignored", s)
	}
}

func backgroundDoesNotHoldItUp(t *testing.T, h host) {
	p, started := h.make(t), time.Now()
	out, s := h.run(t, p, providers.Command{Script: "sleep 600 & echo up"})
	if out["stdout"] != "up\n" || s.State != providers.WorkDone || time.Since(started) > time.Minute {
		t.Fatalf("got %q and %+v after %v", out, s, time.Since(started))
	}
}

func refusedCommands(t *testing.T, h host) {
	p := h.make(t)
	for name, c := range map[string]providers.Command{
		"nothing": {}, "both": {Path: "a", Script: "b"}, "dash": {Path: "-x"}, "NUL": {Path: "a",
			Args: []string{"\x00"}}, "user": {Path: "a", User: "a b"},
		"variable": {Path: "a", Env: map[string]string{"A B": "c"}}, "ours": {Path: "a",
			Env: map[string]string{"HOLDFAST_TOKEN": "c"}}, "value": {Path: "a", Env: map[string]string{"A": "\x00"}},
	} {
		if err := p.StartCommand(t.Context(), providers.Op{}, h.machine, newToken(t),
			c); providers.ClassOf(err) != providers.Unsupported {
			t.Errorf("%s: got %v, want class unsupported", name, err)
		}
	}
	if err := p.StartCommand(t.Context(), providers.Op{}, h.machine, "a/../b",
		providers.Command{Path: "a"}); providers.ClassOf(err) != providers.Unsupported {
		t.Errorf("token with a slash: got %v", err)
	}
	if out, s := h.run(t, p, providers.Command{Path: "no-such-program"}); s.ExitCode != 127 || out["stderr"] == "" {
		t.Errorf("got %q and %+v, want exit 127", out, s)
	}
}

// oldStateIsRemoved checks that the directory of an ended command is removed after its time, but
// not that of a running one, and that the claim is kept much longer.
func oldStateIsRemoved(t *testing.T, h host) {
	p, old, running := h.make(t), newToken(t), newToken(t)+"running"
	h.start(t, p, old, providers.Command{Script: "echo old"})
	h.follow(t, p, old, 0)
	h.start(t, p, running, providers.Command{Script: "sleep 600"})
	age := func(path string, days int) {
		at := time.Now().Add(-time.Duration(days) * 24 * time.Hour)
		if err := os.Chtimes(h.seen(path), at, at); err != nil {
			t.Fatal(err)
		}
	}
	age(h.claimOf(t, old)[0]+"/exit", 9)
	age(h.claimOf(t, running)[0], 40)
	if _, s := h.run(t, p, providers.Command{Script: "true"}); s.State != providers.WorkDone {
		t.Fatalf("got %+v", s)
	}
	if _, err := os.Stat(h.seen(h.claimOf(t, old)[0])); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("directory of the old command: got %v, want it removed", err)
	}
	s, err := p.CommandStatus(t.Context(), h.machine, old, 0)
	if err != nil || s.State != providers.WorkFailed || s.Reason == "" {
		t.Errorf("got %+v, %v, want a failure with a reason, because it must not be started again", s, err)
	}
	if s, err := p.CommandStatus(t.Context(), h.machine, running, 0); err != nil || s.State != providers.WorkRunning {
		t.Errorf("got %+v, %v, want running", s, err)
	}
	ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
	defer stop()
	if err := p.KillCommand(ctx, providers.Op{}, h.machine, running); err != nil {
		t.Error(err)
	}
}
