package oidc

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"
)

// waiting is a holdfast login that waits for its person.
type waiting struct {
	*testing.T
	cmd  *exec.Cmd
	err  *bufio.Reader
	said strings.Builder
}

func (l *lab) login(t *testing.T, args ...string) *waiting {
	t.Helper()
	w := &waiting{T: t, cmd: l.command(append([]string{"login"}, args...)...)}
	stderr, err := w.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	w.err = bufio.NewReader(stderr)
	if err := w.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.cmd.Process.Kill() })
	return w
}

// sees reads lines until one matches, and returns its groups.
func (w *waiting) sees(e *regexp.Regexp) []string {
	w.Helper()
	for {
		line, err := w.err.ReadString('\n')
		w.said.WriteString(line)
		if m := e.FindStringSubmatch(line); m != nil {
			return m[1:]
		}
		if err != nil {
			w.Fatalf("wait for %s: %v in\n%s", e, err, w.said.String())
		}
	}
}

// ends returns the rest of the output, and the exit code.
func (w *waiting) ends() (output string, code int) {
	w.Helper()
	rest, err := io.ReadAll(w.err)
	if err != nil {
		w.Fatal(err)
	}
	_ = w.cmd.Wait() // the exit code is compared
	return string(rest), w.cmd.ProcessState.ExitCode()
}

var (
	codeLine = regexp.MustCompile(`^Open (\S+) and enter the code (\S+)\.\n?$`)
	filled   = regexp.MustCompile(`^Or open (\S+), which has the code filled in\.\n?$`)
	browse   = regexp.MustCompile(`^(http://localhost:\S+)\n?$`)
)

// saved is the file of a sign-in.
type saved struct {
	Token, Audience string
	Expires         time.Time
	Refresh         string `json:"refresh_token"`
}

func (l *lab) saved(t *testing.T) (v saved) {
	t.Helper()
	file := l.path(".config/holdfast/config-logins/e2e.json")
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("got mode %v, %v, want 0600", info.Mode(), err)
	}
	return v
}

// confirm enters a code at the provider.
func (p *person) confirm(form page, action string) page {
	p.Helper()
	p.has(p.authenticate(form, "alice", password), http.StatusOK, "Welcome back alice", commandLine)
	confirm, err := form.url.Parse("./device/confirm?action=" + action)
	if err != nil {
		p.Fatal(err)
	}
	return p.open(confirm.String())
}

func testLogin(t *testing.T, l *lab) {
	l.scene(t, "device", func(t *testing.T) {
		l.idp.lasts.Store(8)
		defer l.idp.lasts.Store(300)
		w := l.login(t)
		m := w.sees(codeLine)
		p := l.person(t)
		form := p.post(p.open(m[0]), m[0], map[string][]string{"user_code": {m[1]}})
		p.has(p.confirm(form, "allowed"), http.StatusOK, "allowed")
		out, code := w.ends()
		if want := "signed in to context e2e as " + l.name("alice") + " (operator), and stay so"; code != 0 ||
			!strings.Contains(out, want) {
			t.Fatalf("got exit code %d and %s, want %q", code, out, want)
		}
		first := l.saved(t)
		until(t, "the token to expire", func() bool { return time.Now().After(first.Expires.Add(time.Second)) })
		if out, code := l.run("whoami", "--token", first.Token); code == 0 {
			t.Errorf("the expired token: got %s, want a refusal", out)
		}
		if out := l.ok("whoami"); !strings.Contains(out, l.name("alice")) {
			t.Errorf("got %s, want %s", out, l.name("alice"))
		}
		next := l.saved(t)
		if next.Token == first.Token || next.Refresh == first.Refresh || next.Expires.Before(time.Now()) {
			t.Errorf("the token was not refreshed: it expires %s", next.Expires)
		}
		l.ok("machine", "list")
	})
	l.scene(t, "blocked", func(t *testing.T) {
		l.idp.lasts.Store(4)
		l.ok("whoami")
		l.idp.blocked.Store(true)
		defer l.idp.blocked.Store(false)
		defer l.idp.lasts.Store(300)
		until(t, "the token to expire", func() bool { return time.Now().After(l.saved(t).Expires) })
		out, code := l.run("whoami")
		if want := "the sign-in with " + l.idp.url + " has ended: run: holdfast login"; code == 0 ||
			!strings.Contains(out, want) {
			t.Errorf("got exit code %d and %s, want %q", code, out, want)
		}
	})
	l.scene(t, "logout", func(t *testing.T) {
		l.ok("logout")
		if _, err := os.Stat(l.path(".config/holdfast/config-logins/e2e.json")); !os.IsNotExist(err) {
			t.Errorf("got %v, want no file of the sign-in", err)
		}
		if out, code := l.run("machine", "list"); code == 0 {
			t.Errorf("got %s, want a refusal", out)
		}
	})
	l.scene(t, "browser", func(t *testing.T) {
		w := l.login(t, "--browser")
		p := l.person(t)
		got := p.authenticate(p.open(w.sees(browse)[0]), "alice", password)
		p.has(got, http.StatusOK, "You are signed in. You can close this page.")
		if out, code := w.ends(); code != 0 || !strings.Contains(out, l.name("alice")) {
			t.Fatalf("got exit code %d and %s, want %s", code, out, l.name("alice"))
		}
		l.ok("machine", "list")
		if l.saved(t).Refresh == "" {
			t.Error("got no refresh token")
		}
		l.ok("logout")
	})
	l.scene(t, "denied", func(t *testing.T) {
		w := l.login(t)
		p := l.person(t)
		p.has(p.confirm(p.open(w.sees(filled)[0]), "denied"), http.StatusOK, "denied")
		if out, code := w.ends(); code == 0 || !strings.Contains(out, "it was denied there") {
			t.Errorf("got exit code %d and %s, want that it was denied", code, out)
		}
	})
}
