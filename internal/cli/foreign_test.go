package cli_test

import (
	"os"
	"slices"
	"strings"
	"testing"
	"unicode"

	"google.golang.org/grpc/codes"

	"github.com/holdfast-metal/holdfast/internal/cli/clitest"
)

// foreignText is a text as a hostile machine, BMC or installer sends it: a title, a color, a query
// that the terminal would answer, a character of 8 bits, and marks that turn text around.
const foreignText = "a\x1b]0;PWNED\x07\x1b[31mb\x1b[6n\u009b2Jc\u202etxt.exe\u2066\rd\be"

// harmful returns the first character of an output that a terminal does not only show, or -1.
func harmful(out string) rune {
	i := strings.IndexFunc(out, func(r rune) bool {
		return r != '\n' && r != '\t' && (unicode.IsControl(r) || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069)
	})
	if i < 0 {
		return -1
	}
	return []rune(out[i:])[0]
}

// TestForeignText runs all commands that print resources, in all formats, against a server whose
// texts are all hostile: nothing but text reaches standard output and standard error.
func TestForeignText(t *testing.T) {
	s := startShapeServer(t)
	s.text = foreignText
	t.Chdir(t.TempDir())
	for name, text := range map[string]string{
		"contexts.yaml":  "current: x\ncontexts: {x: {addrs: [a], ca: ca.pem}}\n",
		"documents.yaml": "machine_id: x\nspec: {rack: y}\n",
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	lines := slices.Concat(shapeArgs, []string{"console replay x", "run logs x --timestamps", "machine console x",
		"operator autopilot state", "cluster failover-safe", "machine power status x", "operator clock show",
		"session end x", "plan list -o custom-columns=A:.plan_id", "run list -o jsonpath={.runs[0].run_id}",
		"machine list -o custom-columns=A:.machine_id,B:.labels", "machine get x -o go-template={{.machine_id}}"})
	printed := 0
	for _, line := range lines {
		formats := []string{"", "-o wide", "-o json", "-o yaml", "-o name"}
		if strings.Contains(line, " -o ") {
			formats = formats[:1]
		}
		for _, format := range formats {
			for _, terminal := range []bool{false, true} {
				if terminal && strings.Contains(line, "watch") {
					continue // it draws a block
				}
				c := clitest.Command{Terminal: terminal, Env: map[string]string{"HOLDFAST_ADDR": s.addr, "NO_COLOR": "1",
					"HOLDFAST_CONTEXTS": "contexts.yaml"}}
				c.Run(t, nil, append(strings.Fields(line), strings.Fields(format)...)...)
				for name, out := range map[string]string{"stdout": c.Out.String(), "stderr": c.Err.String()} {
					if r := harmful(out); r >= 0 {
						t.Errorf("%s %s: %s has %U:\n%q", line, format, name, r, out)
					}
					if strings.Contains(out, "txt.exe") {
						printed++
					}
				}
			}
		}
	}
	if printed < 100 {
		t.Errorf("%d outputs have foreign text, want more", printed)
	}
	var c clitest.Command
	c.Env = map[string]string{"HOLDFAST_ADDR": s.addr}
	c.Run(t, nil, "run", "logs", "x", "--raw")
	if c.Out.String() != foreignText {
		t.Errorf("run logs --raw: got %q, want the bytes", c.Out.String())
	}
}

// TestForeignErrors checks that texts in errors of a server reach the terminal as text.
func TestForeignErrors(t *testing.T) {
	f := clitest.Fixture()
	f.Refuse = clitest.Always(clitest.Refusal(t, codes.InvalidArgument, foreignText, foreignText, foreignText))
	clitest.Start(t, f)
	for _, line := range []string{"machine get m-1", "run logs run-1", "run start m-1 --type REBOOT --yes", "plan list"} {
		c := clitest.Command{Terminal: true, Env: map[string]string{"NO_COLOR": "1"}}
		c.Run(t, f, strings.Fields(line)...)
		if r := harmful(c.Err.String()); r >= 0 || !strings.Contains(c.Err.String(), "txt.exe") {
			t.Errorf("%s: stderr has %U:\n%q", line, r, c.Err.String())
		}
	}
}
