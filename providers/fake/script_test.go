package fake

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-metal/holdfast/providers"
)

func testHost() host {
	return host{name: "m-1", user: "root", image: "factory", time: 30 * time.Millisecond}
}

func TestCompile(t *testing.T) {
	script := func(s string) providers.Command { return providers.Command{Script: s} }
	type result struct {
		Stdout, Stderr string
		Exit           int
		Sleep          time.Duration
		Power          string
	}
	for _, c := range []struct {
		name    string
		command providers.Command
		want    result
	}{
		{"echo", script("echo a b"), result{Stdout: "a b\n"}},
		{"stderr", script("echo a >&2\necho b 1>&2"), result{Stderr: "a\nb\n"}},
		{"redirected", script("echo a >/dev/null; echo b 2>/dev/null; echo c 2>&1 &"), result{Stdout: "b\nc\n"}},
		{"quotes", script(`echo "a  b"'  c;d' e\ f`), result{Stdout: "a  b  c;d e f\n"}},
		{"empty word", script(`echo '' x`), result{Stdout: " x\n"}},
		{"open quote", script(`echo "a; b`), result{Stdout: "a; b\n"}},
		{"comments", script("#!/bin/sh\n# exit 4\necho a # exit 5\n"), result{Stdout: "a\n"}},
		{"continued", script("echo a \\\nb"), result{Stdout: "a b\n"}},
		{"variables", providers.Command{Script: `echo $A "${A}$B" '$A' $ $HOSTNAME $USER`,
			Env: map[string]string{"A": "1 2"}},
			result{Stdout: "1 2 1 2 $A $ m-1 root\n"}},
		{"exit", script("exit 3; echo never"), result{Exit: 3}},
		{"exit as arguments", providers.Command{Path: "exit", Args: []string{"4"}}, result{Exit: 4}},
		{"exit is a byte", script("exit 300"), result{Exit: 44}},
		{"exit of the last", script("false; true"), result{}},
		{"exit of a failure", script("true; false"), result{Exit: 1}},
		{"fail", script("echo a; fail; echo b"), result{Stdout: "a\n", Exit: 1}},
		{"and or", script("false && echo a; false || echo b; true && echo c; true || echo d"), result{Stdout: "b\nc\n"}},
		{"and at a line's end", script("true &&\n echo a; false ||\n echo b"), result{Stdout: "a\nb\n"}},
		{"in an if", script("if test -f x; then exit 7; fi"), result{Stdout: "$ if test -f x\nif: done on m-1 (factory)\n",
			Exit: 7}},
		{"inside another command", providers.Command{Path: "chroot", Args: []string{"/x", "exit", "6"}},
			result{Stdout: "$ chroot /x exit 6\nchroot: done on m-1 (factory)\n", Exit: 6}},
		{"shell", providers.Command{Path: "/bin/bash", Args: []string{"-ec", "echo in; exit 5"}},
			result{Stdout: "in\n", Exit: 5}},
		{"shell in a script", script("sh -c 'exit 5' || echo after"), result{Stdout: "after\n"}},
		{"path is a line", providers.Command{Path: "echo one; exit 2"}, result{Stdout: "one\n", Exit: 2}},
		{"arguments are not read again", providers.Command{Path: "echo", Args: []string{"a;  exit 2", "$HOME"}},
			result{Stdout: "a;  exit 2 $HOME\n"}},
		{"sleep", script("sleep 1.5; sleep 2m; sleep x; sleep -1; sleep NaN"), result{Sleep: 121500 * time.Millisecond}},
		{"sleep is bounded", script("sleep 1e300; sleep 1e300"), result{Sleep: 24 * time.Hour}},
		{"yes", script("yes 3"), result{Stdout: "y\ny\ny\n"}},
		{"seq", script("seq 3"), result{Stdout: "1\n2\n3\n"}},
		{"printenv", providers.Command{Script: "printenv A; printenv B", Env: map[string]string{"A": "x"}},
			result{Stdout: "x\n", Exit: 1}},
		{"who and where", providers.Command{Script: "whoami; hostname"}, result{Stdout: "root\nm-1\n"}},
		{"anything", script("sudo apt-get -y upgrade"),
			result{Stdout: "$ apt-get -y upgrade\napt-get: done on m-1 (factory)\n"}},
		{"reboot", script("sudo systemctl reboot"), result{Power: "reboot"}},
		{"shutdown -r", providers.Command{Path: "shutdown", Args: []string{"-r", "now"}}, result{Power: "reboot"}},
		{"shutdown", script("/sbin/shutdown -h now"), result{Power: "poweroff"}},
		{"poweroff", script("poweroff"), result{Power: "poweroff"}},
		{"systemctl", script("systemctl restart sshd"),
			result{Stdout: "$ systemctl restart sshd\nsystemctl: done on m-1 (factory)\n"}},
		{"nothing", script(" \n#\n;;"), result{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := compile(c.command, testHost())
			got := result{Exit: p.exit, Sleep: p.length - testHost().time, Power: p.power}
			for _, o := range p.output {
				if o.stream == "stderr" {
					got.Stderr += string(o.data)
				} else {
					got.Stdout += string(o.data)
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Fatal(diff)
			}
		})
	}
}

func TestOutputComesInTime(t *testing.T) {
	p := compile(providers.Command{Script: "echo a; sleep 10; echo b; sleep 5"}, testHost())
	if len(p.output) != 2 || p.output[0].at >= 30*time.Millisecond || p.output[1].at < 10*time.Second ||
		p.output[1].at > 11*time.Second {
		t.Fatalf("got %+v", p.output)
	}
	if p.length != 15*time.Second+30*time.Millisecond {
		t.Fatalf("takes %v", p.length)
	}
}

func TestOutputIsBounded(t *testing.T) {
	p := compile(providers.Command{Script: strings.Repeat("yes 999999\n", 500)}, testHost())
	n := 0
	for _, o := range p.output {
		n += len(o.data)
	}
	if n == 0 || n > maxOutput {
		t.Fatalf("got %d bytes of output, want at most %d", n, maxOutput)
	}
}

// FuzzCompile checks that no script breaks the host: output is in order and before the end, and
// reading it in two parts returns the same.
func FuzzCompile(f *testing.F) {
	for _, s := range []string{"echo a; sleep 1 && fail || exit 2", `sh -c "sh -c 'echo x'"`, "yes 5 >&2", "'", `\`, "$",
		"a && || b", "exit exit", "sh -c -c -c", "> < |"} {
		f.Add(s, int64(3))
	}
	f.Fuzz(func(t *testing.T, script string, cut int64) {
		p := compile(providers.Command{Script: script, Env: map[string]string{"A": "b"}}, testHost())
		var last time.Duration
		for _, o := range p.output {
			if o.at < last || o.at > p.length {
				t.Fatalf("got output at %v after one at %v, of %v", o.at, last, p.length)
			}
			last = o.at
		}
		if p.exit < 0 || p.exit > 255 {
			t.Fatalf("got exit code %d", p.exit)
		}
		all, end := p.read(p.length, 0)
		cut = min(max(cut, 0), end)
		part, next := p.read(p.length, cut)
		if flat(part) != flat(all)[cut:] || next != end {
			t.Fatalf("from %d got %q and %d, want %q and %d", cut, flat(part), next, flat(all)[cut:], end)
		}
	})
}

func flat(out []providers.Output) string {
	var b strings.Builder
	for _, o := range out {
		b.Write(o.Data)
	}
	return b.String()
}
