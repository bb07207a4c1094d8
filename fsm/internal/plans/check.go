package plans

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-metal/holdfast/fsm/internal/lex"
	"github.com/holdfast-metal/holdfast/fsm/internal/refusal"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Limits of a plan. They keep a command far below the size that Raft handles well.
const (
	maxSteps        = 100
	maxStepTimeout  = 7 * 24 * 3600 // seconds
	maxStepRetries  = 100
	MaxStepPayload  = 128 << 10 // bytes of script, cloud-init or network configuration
	maxPlanIDLength = 128
	maxLight        = 3600 // seconds
	maxMediaURL     = 2048 // bytes
)

// CheckMediaURL returns an error if the URL of an image for a virtual drive is invalid. It is
// recorded and visible to viewers, so it must not contain a password.
func CheckMediaURL(s string) error {
	switch u, ok := lex.ParseURL(s); {
	case !ok:
		return errors.New("is not a URL like https://images.example/rescue.iso")
	case u.User:
		return errors.New("names a user, and the record is visible to others: " +
			"use a URL without credentials, or one that expires")
	case len(s) > maxMediaURL:
		return fmt.Errorf("has %d bytes, at most %d are allowed", len(s), maxMediaURL)
	}
	return nil
}

// KindOf returns the name of a step's kind, as run status and filters show it, or "".
func KindOf(s *holdfastv1.Step) string {
	fd := s.ProtoReflect().WhichOneof(s.ProtoReflect().Descriptor().Oneofs().ByName("kind"))
	if fd == nil {
		return ""
	}
	return fd.TextName()
}

// Validate returns the violations of a plan, and sets the canonical case of its words.
// Unknown kinds and duplicate names are violations.
func Validate(p *holdfastv1.Plan) []refusal.FieldViolation {
	var bad []refusal.FieldViolation
	add := func(field, format string, args ...any) {
		bad = append(bad, refusal.FieldViolation{Field: "plan." + field, Description: fmt.Sprintf(format, args...)})
	}
	if !lex.ValidName(strings.ReplaceAll(p.GetPlanId(), "/", "."), maxPlanIDLength) {
		add("plan_id", "%q is not 1 to %d letters, digits, '.', '_', '-', ':' or '/'", p.GetPlanId(), maxPlanIDLength)
	}
	if n := len(p.GetSteps()); n == 0 || n > maxSteps {
		add("steps", "has %d steps, 1 to %d are allowed", n, maxSteps)
	}
	seen := map[string]int{}
	for i, s := range p.GetSteps() {
		at := fmt.Sprintf("steps[%d].", i)
		if !lex.ValidName(s.GetName(), 64) {
			add(at+"name", "%q is not 1 to 64 letters, digits, '.', '_', '-' or ':'", s.GetName())
		} else if first, dup := seen[s.GetName()]; dup {
			add(at+"name", "%q is the name of steps[%d] too: step names are unique in a plan", s.GetName(), first)
		} else {
			seen[s.GetName()] = i
		}
		if n := s.GetTimeoutSeconds(); n < 0 || n > maxStepTimeout {
			add(at+"timeout_seconds", "%d is not 0 to %d", n, maxStepTimeout)
		}
		if n := s.GetMaxRetries(); n < 0 || n > maxStepRetries {
			add(at+"max_retries", "%d is not 0 to %d", n, maxStepRetries)
		}
		for _, v := range checkStep(s) {
			add(at+v.Field, "%s", v.Description)
		}
	}
	console := func(s *holdfastv1.Step) bool { return s.GetConsole() != nil }
	if len(p.GetSteps()) > 1 && slices.ContainsFunc(p.GetSteps(), console) {
		add("steps", "a console must be the only step")
	}
	return bad
}

// validParam reports whether the name of a parameter can be part of an environment variable's
// name.
func validParam(name string) bool {
	return lex.ValidName(name, 64) && !strings.ContainsAny(name, ".-:")
}

func checkStep(s *holdfastv1.Step) []refusal.FieldViolation {
	var bad []refusal.FieldViolation
	add := func(field, format string, args ...any) {
		bad = append(bad, refusal.FieldViolation{Field: field, Description: fmt.Sprintf(format, args...)})
	}
	oneOf := func(field string, v *string, fold func(string) string, allowed ...string) {
		*v = fold(*v)
		if !slices.Contains(allowed, *v) {
			add(field, "%q is not one of %s", *v, strings.Join(allowed, ", "))
		}
	}
	seconds := func(field string, n int32) {
		if n < 0 || n > 24*3600 {
			add(field, "%d is not 0 to %d", n, 24*3600)
		}
	}
	short := func(field, v string) {
		if len(v) > MaxStepPayload {
			add(field, "has %d bytes, at most %d are allowed", len(v), MaxStepPayload)
		}
	}
	switch k := s.GetKind().(type) {
	case nil:
		add("kind",
			"is missing or unknown: one of ssh, reboot, netboot, repave, join, verify, net, rma, power, inspect, "+
				"identify, event_log, clear_event_log, reset_bmc, media, inventory, console is needed")
	case *holdfastv1.Step_Ssh:
		if (k.Ssh.GetCommand() == "") == (k.Ssh.GetScript() == "") {
			add("ssh", "needs a command or a script, and not both")
		}
		short("ssh.script", k.Ssh.GetScript())
		for i, name := range k.Ssh.GetParams() {
			if !validParam(name) {
				add(fmt.Sprintf("ssh.params[%d]", i), "%q is not 1 to 64 letters, digits or '_'", name)
			}
		}
	case *holdfastv1.Step_Reboot:
		if k.Reboot.Mode == "" {
			k.Reboot.Mode = "auto"
		}
		oneOf("reboot.mode", &k.Reboot.Mode, strings.ToLower, "bmc", "inband", "auto")
		seconds("reboot.shutdown_seconds", k.Reboot.GetShutdownSeconds())
	case *holdfastv1.Step_Netboot:
		if k.Netboot.Mode == "" {
			k.Netboot.Mode = "PXE"
		}
		oneOf("netboot.mode", &k.Netboot.Mode, strings.ToUpper, "PXE", "HTTP", "DISK", "VIRTUAL_MEDIA")
		if k.Netboot.GetBootMode() != "" {
			oneOf("netboot.boot_mode", &k.Netboot.BootMode, strings.ToLower, bootModes()...)
		}
		if m := k.Netboot.GetBootMode(); m == "bios" && (k.Netboot.GetMode() == "HTTP" || k.Netboot.GetUefi()) {
			add("netboot.boot_mode", "is bios, but HTTP boot and uefi require UEFI")
		}
	case *holdfastv1.Step_Repave:
		short("repave.cloud_init", k.Repave.GetCloudInit())
	case *holdfastv1.Step_Join:
		if k.Join.Role == "" {
			k.Join.Role = "worker"
		}
		oneOf("join.role", &k.Join.Role, strings.ToLower, "worker", "control-plane")
	case *holdfastv1.Step_Verify:
		if d := k.Verify.GetTimeout(); d != nil && (d.CheckValid() != nil || d.AsDuration() < 0) {
			add("verify.timeout", "is not a duration")
		}
	case *holdfastv1.Step_Net:
		short("net.config", k.Net.GetConfig())
		if to := k.Net.GetNewSshEndpoint(); strings.ContainsAny(to, "/@ \t\r\n") || len(to) > 255 {
			add("net.new_ssh_endpoint", "%q is not an address: want host or host:port", to)
		}
	case *holdfastv1.Step_Identify:
		if n := k.Identify.GetForSeconds(); n < 0 || n > maxLight || n > 0 && k.Identify.GetOff() {
			add("identify.for_seconds", "%d is not 0 to %d, and 0 where the light is switched off", n, maxLight)
		}
	case *holdfastv1.Step_Media:
		if u := k.Media.GetUrl(); u != "" && k.Media.GetEject() {
			add("media.url", "is not for a step that ejects")
		} else if err := CheckMediaURL(u); u != "" && err != nil {
			add("media.url", "%v", err)
		}
	case *holdfastv1.Step_Console:
		if n := k.Console.GetIdleSeconds(); n < 0 || n > maxStepTimeout {
			add("console.idle_seconds", "%d is not 0 to %d", n, maxStepTimeout)
		}
	case *holdfastv1.Step_Power:
		oneOf("power.action", &k.Power.Action, strings.ToLower, "on", "off", "cycle")
		seconds("power.shutdown_seconds", k.Power.GetShutdownSeconds())
	case *holdfastv1.Step_Rma:
		seconds("rma.shutdown_seconds", k.Rma.GetShutdownSeconds())
	}
	return bad
}
