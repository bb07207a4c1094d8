package plans

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-metal/holdfast/fsm/internal/lex"
	"github.com/holdfast-metal/holdfast/fsm/internal/refusal"
	"github.com/holdfast-metal/holdfast/proto/holdfast/stepkind"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Limits of settings.
const (
	maxLight    = 3600      // seconds
	maxShutdown = 24 * 3600 // seconds
	maxMediaURL = 2048      // bytes
)

// settingsChecks returns the check of the settings of each kind of step that has settings. A check
// also fills in defaults and sets the canonical case of words.
func settingsChecks() map[string]func(*checker, *holdfastv1.Step) {
	return map[string]func(*checker, *holdfastv1.Step){
		"ssh":     checkSSH,
		"reboot":  checkReboot,
		"netboot": checkNetboot,
		"repave":  checkRepave,
		"join":    checkJoin,
		"verify":  checkVerify,
		"net":     checkNet,
		"rma":     checkRMA,
		"power":   checkPower,

		"identify": checkIdentify,
		"media":    checkMedia,

		"event_log":       checkLog,
		"clear_event_log": checkLog,

		"console": checkConsole,
	}
}

// checkSettings returns the violations of the settings of a step.
func checkSettings(s *holdfastv1.Step) []refusal.FieldViolation {
	c := &checker{kind: stepkind.Name(s)}
	if c.kind == "" {
		return []refusal.FieldViolation{{Field: "kind", Description: fmt.Sprintf(
			"is missing or unknown: one of %s is needed", strings.Join(stepkind.Names(), ", "))}}
	}
	if check := settingsChecks()[c.kind]; check != nil {
		check(c, s)
	}
	return c.bad.Fields
}

// checker collects the violations of the settings of a step.
type checker struct {
	kind string
	bad  refusal.Violations
}

// add adds a violation of a setting, or, if field is empty, of all of them together.
func (c *checker) add(field, format string, args ...any) {
	at := c.kind
	if field != "" {
		at += "." + field
	}
	c.bad.Add(at, format, args...)
}

func (c *checker) oneOf(field string, v *string, fold func(string) string, allowed ...string) {
	*v = fold(*v)
	if !slices.Contains(allowed, *v) {
		c.add(field, "%q is not one of %s", *v, strings.Join(allowed, ", "))
	}
}

func (c *checker) seconds(field string, n, most int32) {
	if n < 0 || n > most {
		c.add(field, "%d is not 0 to %d", n, most)
	}
}

func (c *checker) short(field, v string) {
	if len(v) > MaxStepPayload {
		c.add(field, "has %d bytes, at most %d are allowed", len(v), MaxStepPayload)
	}
}

func checkSSH(c *checker, s *holdfastv1.Step) {
	k := s.GetSsh()
	if (k.GetCommand() == "") == (k.GetScript() == "") {
		c.add("", "needs a command or a script, and not both")
	}
	c.short("script", k.GetScript())
	for i, name := range k.GetParams() {
		if !validParam(name) {
			c.add(fmt.Sprintf("params[%d]", i), "%q is not 1 to 64 letters, digits or '_'", name)
		}
	}
}

// validParam reports whether the name of a parameter can be part of an environment variable's
// name.
func validParam(name string) bool {
	return lex.ValidName(name, 64) && !strings.ContainsAny(name, ".-:")
}

func checkReboot(c *checker, s *holdfastv1.Step) {
	k := s.GetReboot()
	if k.Mode == "" {
		k.Mode = "auto"
	}
	c.oneOf("mode", &k.Mode, strings.ToLower, "bmc", "inband", "auto")
	c.seconds("shutdown_seconds", k.GetShutdownSeconds(), maxShutdown)
}

func checkNetboot(c *checker, s *holdfastv1.Step) {
	k := s.GetNetboot()
	if k.Mode == "" {
		k.Mode = "PXE"
	}
	c.oneOf("mode", &k.Mode, strings.ToUpper, "PXE", "HTTP", "DISK", "VIRTUAL_MEDIA")
	if k.GetBootMode() != "" {
		c.oneOf("boot_mode", &k.BootMode, strings.ToLower, bootModes()...)
	}
	if k.GetBootMode() == "bios" && (k.GetMode() == "HTTP" || k.GetUefi()) {
		c.add("boot_mode", "is bios, but HTTP boot and uefi require UEFI")
	}
}

func checkRepave(c *checker, s *holdfastv1.Step) { c.short("cloud_init", s.GetRepave().GetCloudInit()) }

func checkJoin(c *checker, s *holdfastv1.Step) {
	k := s.GetJoin()
	if k.Role == "" {
		k.Role = "worker"
	}
	c.oneOf("role", &k.Role, strings.ToLower, "worker", "control-plane")
}

func checkVerify(c *checker, s *holdfastv1.Step) {
	if d := s.GetVerify().GetTimeout(); d != nil && (d.CheckValid() != nil || d.AsDuration() < 0) {
		c.add("timeout", "is not a duration")
	}
}

func checkNet(c *checker, s *holdfastv1.Step) {
	c.short("config", s.GetNet().GetConfig())
	switch to := s.GetNet().GetNewSshEndpoint(); {
	case strings.Contains(to, "@"):
		c.add("new_ssh_endpoint", "has a user: leave it out, the secret of the machine names it")
	case to != "" && lex.SSHEndpoint(to) != "":
		c.add("new_ssh_endpoint", "%s", lex.SSHEndpoint(to))
	}
}

func checkRMA(c *checker, s *holdfastv1.Step) {
	c.seconds("shutdown_seconds", s.GetRma().GetShutdownSeconds(), maxShutdown)
}

func checkPower(c *checker, s *holdfastv1.Step) {
	c.oneOf("action", &s.GetPower().Action, strings.ToLower, "on", "off", "cycle")
	c.seconds("shutdown_seconds", s.GetPower().GetShutdownSeconds(), maxShutdown)
}

func checkIdentify(c *checker, s *holdfastv1.Step) {
	if n := s.GetIdentify().GetForSeconds(); n < 0 || n > maxLight || n > 0 && s.GetIdentify().GetOff() {
		c.add("for_seconds", "%d is not 0 to %d, and 0 where the light is switched off", n, maxLight)
	}
}

// maxLogID bounds the id of an event log, in bytes.
const maxLogID = 64

func checkLog(c *checker, s *holdfastv1.Step) {
	log := cmp.Or(s.GetEventLog().GetLog(), s.GetClearEventLog().GetLog())
	if log != "" && !lex.ValidName(log, maxLogID) {
		c.add("log", "%q is not 1 to %d letters, digits, '.', '_', '-' or ':'", lex.Clip(log, maxValueShown), maxLogID)
	}
}

func checkMedia(c *checker, s *holdfastv1.Step) {
	u := s.GetMedia().GetUrl()
	if u == "" {
		return
	}
	if s.GetMedia().GetEject() {
		c.add("url", "is not for a step that ejects")
	} else if err := CheckMediaURL(u); err != nil {
		c.add("url", "%v", err)
	}
}

// CheckMediaURL returns an error if the URL of an image for a virtual drive is invalid. It is
// recorded and visible to viewers, so it must not contain a password.
func CheckMediaURL(s string) error {
	switch u, ok := lex.ParseURL(s); {
	case !ok:
		return fmt.Errorf("%q is not a URL like https://images.example/rescue.iso", lex.Clip(s, maxValueShown))
	case u.User:
		return errors.New("names a user, and the record is visible to others: " +
			"use a URL without credentials, or one that expires")
	case len(s) > maxMediaURL:
		return fmt.Errorf("has %d bytes, at most %d are allowed", len(s), maxMediaURL)
	}
	return nil
}

func checkConsole(c *checker, s *holdfastv1.Step) {
	c.seconds("idle_seconds", s.GetConsole().GetIdleSeconds(), maxStepTimeout)
}
