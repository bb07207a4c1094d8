package providertest

import (
	"fmt"
	"strings"

	"github.com/holdfast-metal/holdfast/providers"
)

func outputTests() map[string]func(*harness) {
	exit := func(code int) func(*harness) {
		return func(h *harness) {
			p := need[providers.RemoteExecutor](h)
			op := h.op("ssh")
			script := fmt.Sprintf("echo out; echo err >&2; echo more; exit %d", code)
			h.ok("start", p.StartCommand(h.ctx, op, h.Machine, op.Token(), providers.Command{Script: script}))
			s := h.finished(p, op.Token())
			if s.State != providers.WorkDone || s.ExitCode != code {
				h.Fatalf("got %s with exit %d, want done with exit %d", s.State, s.ExitCode, code)
			}
			if out, err := text(s.Output, "stdout"), text(s.Output, "stderr"); out != "out\nmore\n" || err != "err\n" {
				h.Fatalf("got stdout %q and stderr %q", out, err)
			}
		}
	}
	return map[string]func(*harness){
		"ExitZero":     exit(0),
		"ExitNonZero":  exit(3),
		"ExitHighest":  exit(255),
		"ByOffset":     byOffset,
		"WhileItRuns":  whileItRuns,
		"LongIsWhole":  longIsWhole,
		"OffsetAtEnd":  offsetAtEnd,
		"SilentCanEnd": func(h *harness) { h.prints(providers.Command{Script: "true"}, "") },
	}
}

// byOffset reads from every offset, twice: the output must be the same and complete.
func byOffset(h *harness) {
	p := need[providers.RemoteExecutor](h)
	op := h.op("ssh")
	c := providers.Command{Script: "echo one; echo two >&2; echo three"}
	h.ok("start", p.StartCommand(h.ctx, op, h.Machine, op.Token(), c))
	h.finished(p, op.Token())
	all := text(h.status(p, op.Token(), 0).Output, "")
	if len(all) != len("one\ntwo\nthree\n") {
		h.Fatalf("got %q", all)
	}
	for i := range len(all) + 1 {
		for range 2 {
			s := h.status(p, op.Token(), int64(i))
			if got := text(s.Output, ""); got != all[i:i+len(got)] || i < len(all) && got == "" {
				h.Fatalf("from offset %d got %q, want a part of %q", i, got, all[i:])
			}
			if want := int64(i + len(text(s.Output, ""))); s.Next != want {
				h.Fatalf("from offset %d the next is %d, want %d", i, s.Next, want)
			}
		}
	}
}

// whileItRuns reads the output of a running command as the executor does.
func whileItRuns(h *harness) {
	p := need[providers.RemoteExecutor](h)
	op := h.op("ssh")
	script := "echo one; sleep 0.2; echo two; sleep 0.2; echo three"
	h.ok("start", p.StartCommand(h.ctx, op, h.Machine, op.Token(), providers.Command{Script: script}))
	got, sawPart := h.follow(p, op.Token())
	if got != "one\ntwo\nthree\n" {
		h.Fatalf("got %q", got)
	}
	if !sawPart {
		h.Fatal("output came only after the command had ended")
	}
	if again, _ := h.follow(p, op.Token()); again != got {
		h.Fatalf("got %q the second time, want %q", again, got)
	}
}

// longIsWhole checks output that exceeds one answer of most transports.
func longIsWhole(h *harness) {
	p := need[providers.RemoteExecutor](h)
	op := h.op("ssh")
	h.ok("start", p.StartCommand(h.ctx, op, h.Machine, op.Token(), providers.Command{Script: "seq 50000"}))
	var want strings.Builder
	for i := range 50000 {
		fmt.Fprintln(&want, i+1)
	}
	if got, _ := h.follow(p, op.Token()); got != want.String() {
		h.Fatalf("got %d bytes that differ from the %d bytes printed", len(got), want.Len())
	}
}

func offsetAtEnd(h *harness) {
	p := need[providers.RemoteExecutor](h)
	op := h.op("ssh")
	h.ok("start", p.StartCommand(h.ctx, op, h.Machine, op.Token(), providers.Command{Script: "echo all"}))
	end := int64(len(text(h.finished(p, op.Token()).Output, "")))
	if s := h.status(p, op.Token(), end); len(s.Output) != 0 || s.Next != end || s.State != providers.WorkDone {
		h.Fatalf("at the end got %+v, want no output and next %d", s, end)
	}
}

// follow reads the whole output of a command, and reports whether any came before its end.
func (h *harness) follow(p providers.RemoteExecutor, token string) (all string, early bool) {
	h.Helper()
	var b strings.Builder
	next := int64(0)
	h.eventually("end of the command", func() (bool, error) {
		s, err := p.CommandStatus(h.ctx, h.Machine, token, next)
		if err != nil {
			return false, err
		}
		piece := text(s.Output, "")
		if s.Next != next+int64(len(piece)) {
			h.Fatalf("%d bytes from offset %d, and the next is %d", len(piece), next, s.Next)
		}
		b.WriteString(piece)
		next = s.Next
		early = early || piece != "" && s.State == providers.WorkRunning
		return s.State == providers.WorkDone && piece == "", nil
	})
	return b.String(), early
}
