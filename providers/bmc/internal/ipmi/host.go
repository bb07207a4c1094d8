// Package ipmi drives machines over IPMI with Debian's ipmitool.
//
// It owns the processes of ipmitool: one for each console, and one for each command, which is
// killed after Config.CommandTime. It parses their output and classifies their errors. It must not
// decide whether IPMI is used, and it retries no effect.
package ipmi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/bmc-toolbox/bmclib/v2/providers/ipmitool"

	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/bmc/internal/access"
	"github.com/holdfast-metal/holdfast/providers/guard"
	"github.com/holdfast-metal/holdfast/providers/internal/text"
)

// CipherLabel is the label of a machine that overrides the cipher suite.
const CipherLabel = "bmc-cipher-suite"

// Config is one machine behind IPMI and how to reach it.
type Config struct {
	BMC         access.BMC
	Host, Port  string
	CipherSuite string
	Tool        string        // path of ipmitool
	CommandTime time.Duration // ipmitool is killed after it
	Gap         time.Duration // minimum pause between commands; a quirk may extend it
}

// Host is one machine behind IPMI. Every command runs in a session of its own, which ipmitool
// closes. It is safe for concurrent use.
type Host struct {
	cfg Config

	mu     sync.Mutex
	asked  bool // the vendor was read
	quirks access.Quirks
	kept   time.Time // last request to keep the boot flags
}

// New returns the driver of a machine. It starts no command.
func New(c Config) *Host { return &Host{cfg: c} }

// gap returns the minimum time between two commands.
func (h *Host) gap() time.Duration {
	return max(h.cfg.Gap, h.quirksNow().IPMIGap)
}

func (h *Host) quirksNow() access.Quirks {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.quirks
}

// turn blocks until a command may run, and returns the account. Before the first command it reads
// the vendor of the BMC, for the quirk table.
func (h *Host) turn(ctx context.Context, write bool) (a access.Account, leave func(error), err error) {
	h.mu.Lock()
	first := !h.asked
	h.asked = true
	h.mu.Unlock()
	if first {
		if _, err := h.mcInfo(providers.Unhurried(ctx)); err != nil {
			h.mu.Lock()
			h.asked = false
			h.mu.Unlock()
			return a, nil, err
		}
	}
	out, err := h.cfg.BMC.Gate.Enter(ctx, write)
	if err != nil {
		return a, nil, err
	}
	defer func() {
		if err != nil {
			out()
		}
	}()
	ended, err := h.cfg.BMC.Gate.Pace(ctx, h.gap())
	if err != nil {
		return a, nil, err
	}
	defer func() {
		if err != nil {
			ended(false)
		}
	}()
	if a, err = h.cfg.BMC.Account(ctx); err != nil {
		return a, nil, err
	}
	if err = fits(a); err != nil {
		return a, nil, err
	}
	if err = h.cfg.BMC.Logins.Begin(ctx, a); err != nil {
		return a, nil, err
	}
	return a, func(err error) {
		defer h.cfg.BMC.Logins.End()
		switch {
		case err == nil:
			h.cfg.BMC.Logins.Done(a, true)
		case providers.ClassOf(err) == providers.Auth:
			h.cfg.BMC.Logins.Done(a, false)
		}
		ended(providers.ClassOf(err) != providers.Late) // a late command was not sent: no gap follows
		out()
	}, nil
}

// The limits of an account over IPMI 2.0 (§22.28, §22.30), in bytes.
const (
	maxUser     = 16
	maxPassword = 20
)

// fits returns an error if IPMI cannot carry an account.
func fits(a access.Account) error {
	const what = "log in to the BMC over IPMI"
	switch {
	case len(a.Password) > maxPassword:
		return providers.Errorf(providers.Unsupported, what, "the password has %d bytes, and IPMI allows at most %d: "+
			"set a shorter one at the BMC and store it (holdfast secret put)", len(a.Password), maxPassword)
	case len(a.User) > maxUser:
		return providers.Errorf(providers.Unsupported, what, "the user name has %d bytes, and IPMI allows at most %d: "+
			"use another account, and store it (holdfast secret put)", len(a.User), maxUser)
	}
	return nil
}

// library runs f with bmclib's driver for ipmitool. That driver cannot tell a refused login from
// silence, and the BMC would count each refusal. So the caller must have logged in with run right
// before.
func (h *Host) library(ctx context.Context, f func(context.Context, *ipmitool.Conn) error) error {
	a, leave, err := h.turn(ctx, false)
	if err != nil {
		return err
	}
	path, err := exec.LookPath(h.cfg.Tool)
	if err == nil {
		var host string
		if host, err = h.address(ctx); err != nil {
			leave(err)
			return err
		}
		if strings.Contains(host, ":") {
			host = "[" + host + "]" // bmclib appends the port
		}
		var c *ipmitool.Conn
		c, err = ipmitool.New(host, a.User, a.Password, ipmitool.WithPort(h.cfg.Port),
			ipmitool.WithCipherSuite(h.cfg.CipherSuite), ipmitool.WithIpmitoolPath(path))
		if err == nil {
			ctx, cancel := context.WithTimeout(ctx, h.cfg.CommandTime)
			defer cancel()
			err = f(ctx, c)
			err = ToolError(ctx, "ipmitool", err, fmt.Sprint(err))
		}
	} else {
		err = NoTool(err)
	}
	leave(err)
	return err
}

// address returns the address of the BMC for ipmitool, which must not look the name up itself.
func (h *Host) address(ctx context.Context) (string, error) {
	at, err := guard.Resolve(ctx, h.cfg.Host)
	if err != nil {
		return "", providers.Errorf(providers.Transient, "find the BMC", "%w", err)
	}
	return at, nil
}

// NoTool returns the error for a host without ipmitool.
func NoTool(err error) error {
	return providers.Errorf(providers.Unsupported, "start ipmitool",
		"%w: install it (Debian: ipmitool), or set the provider's ipmitool to its path", err)
}

// run runs ipmitool and returns its output. For an effect, the not-after time is checked right
// before the program starts. The program is killed with its children after CommandTime, or when
// ctx ends.
func (h *Host) run(ctx context.Context, effect bool, args ...string) (string, error) {
	return h.command(ctx, effect, append([]string{"-v"}, args...)) // -v shows why a login failed
}

// table reads a list of sensors or events. With -v ipmitool prints other words, some of them wrong.
// Without it a failed login is not explained: the caller must have logged in with run before.
func (h *Host) table(ctx context.Context, args ...string) (string, error) {
	return h.command(ctx, false, args)
}

func (h *Host) command(ctx context.Context, effect bool, args []string) (string, error) {
	a, leave, err := h.turn(ctx, effect)
	if err != nil {
		return "", err
	}
	out, err := h.exec(ctx, a, effect, args)
	leave(err)
	return out, err
}

func (h *Host) exec(ctx context.Context, a access.Account, effect bool, args []string) (string, error) {
	what := "ipmitool " + strings.TrimPrefix(strings.Join(args, " "), "-v ")
	path, err := exec.LookPath(h.cfg.Tool)
	if err != nil {
		return "", NoTool(err)
	}
	ctx, cancel := context.WithTimeout(ctx, h.cfg.CommandTime)
	defer cancel()
	host, err := h.address(ctx)
	if err != nil {
		return "", err
	}
	argv := append([]string{
		path, "-I", "lanplus", "-H", host, "-p", h.cfg.Port, "-U", a.User, "-E", "-C", h.cfg.CipherSuite,
		"-N", "5", "-R", "2",
	}, args...)
	if timeout, err := exec.LookPath("timeout"); err == nil { // kills it even if this process is stopped
		limit := strconv.FormatFloat((h.cfg.CommandTime + time.Second).Seconds(), 'f', 3, 64)
		argv = append([]string{timeout, "-s", "KILL", limit}, argv...)
	}
	//nolint:gosec // no shell; the arguments are ours, address and user are one argument each
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.Env = h.env(a)
	cmd.WaitDelay = 5 * time.Second // a busy host may need long to read an output that has ended
	// The program ends with the thread that starts it (see endWithThread), so this thread must live
	// until then.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	endWithThread(cmd)
	if effect {
		if err := providers.InTime(ctx, what); err != nil {
			return "", err
		}
	}
	err = cmd.Run()
	said := quiet(out.String())
	return said, ToolError(ctx, what, err, said)
}

// env returns the whole environment of ipmitool. The password is not an argument, because arguments
// are visible to all users.
func (h *Host) env(a access.Account) []string {
	return []string{"IPMITOOL_PASSWORD=" + a.Password, "LC_ALL=C", "HOME=/nonexistent"}
}

// quiet removes the output of -v about the session, except for the reason of a failure.
func quiet(out string) string {
	var b strings.Builder
	for line := range strings.Lines(out) {
		switch {
		case strings.Contains(line, "VSO Capabilities"), strings.Contains(line, "Invalid completion code received"),
			strings.Contains(line, "Discovered IPMB"), strings.Contains(line, "IANA PEN Registry"):
		default:
			b.WriteString(line)
		}
	}
	return b.String()
}

// ToolError classifies an error of ipmitool by its output. The output is the same for a BMC that
// does not exist and for one that does not answer.
func ToolError(ctx context.Context, what string, err error, out string) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return fmt.Errorf("%s: killed: %w", what, ctx.Err())
	}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && (exit.ExitCode() == -1 || exit.ExitCode() == 137) {
		return providers.Errorf(providers.Timeout, what, "killed: %w", err)
	}
	has := func(words ...string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(strings.ToLower(out), w) })
	}
	said := access.Answered(errors.New(text.Clip(out, access.MaxText)))
	switch {
	case has("unexpected"): // mixed-up answers of a slow BMC: like a wrong password, but not one
		return providers.Errorf(providers.Transient, what, "%w", said)
	case has("hmac is invalid", "unauthorized name", "unauthorized role", "unauthorized guid",
		"password verification", "requested privilege level",
		"set session privilege level"): // at the login: the account has not the privileges that ipmitool asks for
		return providers.Errorf(providers.Auth, what, "%w", said)
	case has("rakp 2 message indicates an error"): // no free session, or this one was lost
		return providers.Errorf(providers.Transient, what, "%w", said)
	case has("no matching cipher suite", "invalid authentication algorithm",
		"invalid integrity algorithm", "invalid confidentiality algorithm"):
		return providers.Errorf(providers.Unsupported, what,
			"%w: the BMC does not support this cipher suite: set the label %s of the machine (old BMCs need 3)",
			said, CipherLabel)
	case has("insufficient resources"):
		return providers.Errorf(providers.Transient, what, "the BMC has no free session: %w", said)
	}
	if c, ok := completionOf(out); ok {
		if c.adds != "" {
			return providers.Errorf(c.class, what, "%w (%s)", said, c.adds)
		}
		return providers.Errorf(c.class, what, "%w", said)
	}
	switch {
	case has("invalid command", "command not supported by"):
		return providers.Errorf(providers.Unsupported, what, "%w", said)
	case has("unable to establish", "no response", "timeout"):
		return providers.Errorf(providers.Timeout, what,
			"the BMC does not answer over IPMI: %s", text.Clip(out, access.MaxText))
	}
	if _, exited := errors.AsType[*exec.ExitError](err); !exited { // its output says nothing about the failure
		return providers.Errorf(providers.Transient, what, "%w", access.Answered(err))
	}
	return providers.Errorf(providers.Transient, what, "%w", said)
}
