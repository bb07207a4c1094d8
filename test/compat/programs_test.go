package compat

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/holdfast-metal/holdfast/test/program"
)

var (
	manFlag  = regexp.MustCompile(`^\\fB(?:-(\w), )?--([a-z0-9-]+)\\fP`)
	helpFlag = regexp.MustCompile(`^ +(?:-(\w), )?--([a-z0-9-]+)`)
	helpVerb = regexp.MustCompile(`^  ([a-z0-9-]+) {2,}`)
	exitCode = regexp.MustCompile(`^ +(\d+)  (.*)$`)
	variable = regexp.MustCompile(`\bHOLDFAST_[A-Z0-9_]*[A-Z0-9]\b`)
	verb     = regexp.MustCompile(`^[a-z][a-z0-9-]*$`)
)

// output returns the standard output of a program.
func output(t *testing.T, binary string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), binary, args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %s: %v", filepath.Base(binary), strings.Join(args, " "), err)
	}
	return string(out)
}

// flags returns the lines of a flag: its name, and its letter.
func flags(command string, match []string) []string {
	lines := []string{command + " --" + match[2]}
	if match[1] != "" {
		lines = append(lines, command+" -"+match[1])
	}
	return lines
}

// ofPages returns the commands with their flags, and the environment variables, in manual pages.
func ofPages(pages []string) (commands, variables []string) {
	for _, page := range pages {
		page = strings.ReplaceAll(page, `\-`, "-")
		variables = append(variables, variable.FindAllString(page, -1)...)
		command, section := "", ""
		for line := range strings.Lines(page) {
			line = strings.TrimSpace(line)
			if name, ok := strings.CutPrefix(line, ".SH "); ok {
				section = name
				continue
			}
			switch section {
			case "SYNOPSIS":
				words := strings.Fields(strings.Trim(strings.TrimPrefix(line, `\fB`), `\fP`))
				if i := slices.IndexFunc(words, func(w string) bool { return !verb.MatchString(w) }); i >= 0 {
					words = words[:i]
				}
				command = strings.Join(words, " ")
				commands = append(commands, command)
			case "OPTIONS":
				if m := manFlag.FindStringSubmatch(line); m != nil {
					commands = append(commands, flags(command, m)...)
				}
			}
		}
	}
	return commands, variables
}

// ofHelp returns the subcommands in the help of a command, and its own flags.
func ofHelp(command, help string) (verbs, lines []string) {
	section := ""
	for line := range strings.Lines(help) {
		switch trimmed := strings.TrimSpace(line); {
		case !strings.HasPrefix(line, " ") && trimmed != "":
			section = trimmed
		case section == "Available Commands:":
			if m := helpVerb.FindStringSubmatch(line); m != nil && m[1] != "help" && m[1] != "completion" {
				verbs = append(verbs, m[1])
			}
		case section == "Flags:":
			if m := helpFlag.FindStringSubmatch(line); m != nil {
				lines = append(lines, flags(command, m)...)
			}
		}
	}
	return verbs, lines
}

// ofPrograms returns what the two programs say of themselves.
func ofPrograms(t *testing.T, holdfast string) baseline {
	t.Helper()
	dir := t.TempDir()
	output(t, holdfast, "man", dir)
	files, err := filepath.Glob(filepath.Join(dir, "*.1"))
	if err != nil {
		t.Fatal(err)
	}
	var pages []string
	for _, file := range files {
		pages = append(pages, readFile(t, file))
	}
	b := baseline{"config": fileKeys(t, holdfast)}
	b["flags"], b["environment"] = ofPages(pages)
	for _, line := range b["flags"] {
		// Each flag of the server is a key of its file and a variable.
		if key, ok := strings.CutPrefix(line, "holdfast server --"); ok && key != "help" && key != "config" {
			key = strings.ReplaceAll(key, "-", "_")
			b["config"] = append(b["config"], key)
			b["environment"] = append(b["environment"], "HOLDFAST_"+strings.ToUpper(key))
		}
	}
	agent, err := program.Build{Package: "agent/holdfast-agent"}.Into(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for next := [][]string{nil}; len(next) > 0; next = next[1:] {
		help := output(t, agent, append(next[0], "--help")...)
		command := strings.Join(append([]string{"holdfast-agent"}, next[0]...), " ")
		verbs, lines := ofHelp(command, help)
		for _, v := range verbs {
			next = append(next, append(slices.Clone(next[0]), v))
		}
		b["flags"] = append(append(b["flags"], command), lines...)
	}
	_, codes, _ := strings.Cut(output(t, holdfast, "--help"), "Exit codes:\n")
	for line := range strings.Lines(codes) {
		m := exitCode.FindStringSubmatch(strings.TrimRight(line, "\n"))
		if m == nil {
			break
		}
		b["exits"] = append(b["exits"], m[1]+" "+m[2])
	}
	return b
}

// fileKeys returns the keys that only a configuration file has. They are those of
// testdata/config.yaml, which must have no key that the product does not know.
func fileKeys(t *testing.T, holdfast string) []string {
	t.Helper()
	dir := t.TempDir()
	secret, config := filepath.Join(dir, "secret"), filepath.Join(dir, "config.yaml")
	sample := readFile(t, "testdata/config.yaml")
	for name, text := range map[string]string{secret: "any",
		config: strings.ReplaceAll(sample, "/etc/holdfast/oidc", secret)} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	output(t, holdfast, "config", "check", "--skip-files", config)
	var file map[string]any
	if err := yaml.Unmarshal([]byte(sample), &file); err != nil {
		t.Fatal(err)
	}
	return keys("", file)
}

// keys returns the paths of the keys in a value. A name that a site chooses is a star; that of a
// provider is its kind.
func keys(path string, value any) []string {
	var all []string
	switch value := value.(type) {
	case map[string]any:
		for name, below := range value {
			switch object, _ := below.(map[string]any); {
			case path == "providers." && object["kind"] != nil:
				name = object["kind"].(string)
			case strings.HasPrefix(name, "any-"):
				name = "*"
			}
			all = append(append(all, path+name), keys(path+name+".", below)...)
		}
	case []any:
		for _, below := range value {
			all = append(all, keys(strings.TrimSuffix(path, ".")+"[].", below)...)
		}
	}
	return all
}

func readFile(t *testing.T, file string) string {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}
