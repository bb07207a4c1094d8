package fake

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-metal/holdfast/providers"
)

// host is the host as a command sees it.
type host struct {
	name, user, bootID, image string
	time                      time.Duration // of all statements together, without sleeps
}

// program has all actions of a command, fixed at its start.
type program struct {
	output  []printed
	length  time.Duration
	exit    int
	power   string // reboot or poweroff, if the command asks for it
	powerAt time.Duration
}

// printed is a piece of output with its time.
type printed struct {
	at     time.Duration
	stream string
	data   []byte
}

// Limits of a program: lines of one yes or seq, bytes of output, time asleep.
const (
	maxLines  = 100_000
	maxOutput = 8 << 20
	maxSleep  = 24 * time.Hour
)

// compile parses a command as a small subset of shell: statements between ";", "&&", "||" and line
// ends, quotes, $NAME, comments, and ">&2". It knows echo, exit, sleep, true, false, fail, yes,
// seq, printenv, hostname, whoami, reboot and poweroff (and systemctl, shutdown, sudo and sh -c
// with them). For any other command it prints that it ran.
func compile(c providers.Command, h host) program {
	r := &runner{host: h, env: c.Env}
	switch {
	case c.Script != "":
		r.script(c.Script, 0)
	case len(c.Args) == 0:
		r.script(c.Path, 0)
	default:
		r.statement(append([]string{c.Path}, c.Args...), 0)
	}
	p := r.program
	p.exit = r.status
	p.length += r.host.time
	// The statements share the command's time. Sleeps are already included.
	for i := range p.output {
		p.output[i].at += r.host.time * time.Duration(r.steps[i]) / time.Duration(r.done+1)
	}
	if p.power != "" {
		p.powerAt = p.length
	}
	return p
}

// runner builds a program.
type runner struct {
	host
	program
	env    map[string]string
	status int
	ended  bool
	size   int   // of the output, in bytes
	done   int   // statements so far
	steps  []int // statements before each piece of output
}

func (r *runner) script(text string, depth int) {
	for _, s := range parse(text, r.lookup) {
		if r.ended {
			return
		}
		if s.after == "&&" && r.status != 0 || s.after == "||" && r.status == 0 {
			continue
		}
		r.statement(s.words, depth)
	}
}

func (r *runner) lookup(name string) string {
	switch name {
	case "HOSTNAME":
		return r.name
	case "USER":
		return r.user
	}
	return r.env[name]
}

func (r *runner) print(stream, text string) {
	if r.size += len(text); r.size > maxOutput || stream == "" {
		return
	}
	r.steps = append(r.steps, r.done)
	r.output = append(r.output, printed{at: r.length, stream: stream, data: []byte(text)})
}

// statement runs one statement. depth bounds nested shells.
func (r *runner) statement(words []string, depth int) {
	stream, words := redirect(words)
	for len(words) > 1 && slices.Contains([]string{"sudo", "exec", "then", "do", "else"}, words[0]) {
		words = words[1:]
	}
	if len(words) == 0 {
		return
	}
	r.done++
	r.status = 0
	name, args := path.Base(words[0]), words[1:]
	first := ""
	if len(args) > 0 {
		first = args[0]
	}
	switch name {
	case "echo":
		r.print(stream, strings.Join(args, " ")+"\n")
	case "true", ":", "set":
	case "false":
		r.status = 1
	case "fail":
		r.quit(1)
	case "exit":
		n, _ := strconv.Atoi(first)
		r.quit(n)
	case "sleep":
		r.length = min(r.length+sleepTime(first), maxSleep)
	case "yes":
		r.print(stream, strings.Repeat("y\n", lines(first)))
	case "seq":
		var b strings.Builder
		for i := range lines(first) {
			fmt.Fprintln(&b, i+1)
		}
		r.print(stream, b.String())
	case "printenv":
		if v, ok := r.env[first]; ok {
			r.print(stream, v+"\n")
		} else {
			r.status = 1
		}
	case "hostname":
		r.print(stream, r.name+"\n")
	case "whoami":
		r.print(stream, r.user+"\n")
	case "reboot":
		r.restart(effectReboot)
	case "poweroff", "halt":
		r.restart(effectPoweroff)
	case "systemctl", "shutdown":
		r.service(stream, name, words)
	case "sh", "bash", "dash":
		r.shell(stream, words, depth)
	default:
		r.other(stream, words)
	}
}

func (r *runner) quit(code int) { r.ended, r.status = true, code&0xff }

// restart ends the host after the command.
func (r *runner) restart(what string) {
	r.power = cmp.Or(r.power, what)
}

func (r *runner) service(stream, name string, words []string) {
	switch {
	case slices.Contains(words, "reboot") || name == "shutdown" && slices.Contains(words, "-r"):
		r.restart(effectReboot)
	case slices.Contains(words, "poweroff") || name == "shutdown":
		r.restart(effectPoweroff)
	default:
		r.other(stream, words)
	}
}

func (r *runner) shell(stream string, words []string, depth int) {
	for i, w := range words[1:] {
		if strings.HasPrefix(w, "-") && strings.HasSuffix(w, "c") && i+2 < len(words) && depth < 8 {
			r.script(words[i+2], depth+1)
			r.ended = false // the inner shell ended, not this one
			return
		}
	}
	r.other(stream, words)
}

// other runs a command that the fake host does not know.
func (r *runner) other(stream string, words []string) {
	line := strings.Join(words, " ")
	r.print(stream, "$ "+line+"\n"+path.Base(words[0])+": done on "+r.name+" ("+r.image+")\n")
	if i := slices.Index(words, "exit"); i >= 0 && i+1 < len(words) {
		if n, err := strconv.Atoi(words[i+1]); err == nil {
			r.quit(n)
		}
	}
}

func sleepTime(s string) time.Duration {
	if d, err := time.ParseDuration(s); err == nil {
		return min(max(d, 0), maxSleep)
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || !(f > 0) {
		return 0
	}
	return time.Duration(min(f, maxSleep.Seconds()) * float64(time.Second))
}

func lines(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		return 1
	}
	return min(max(n, 0), maxLines)
}
